/**
 * E2B's unmodified SDK tests the double's file system with the cases of the SDK's own tests of the service
 * (e2b-dev/E2B @b8029973, packages/js-sdk/tests/sandbox/files), with envd 0.5.7.
 */
import { FileNotFoundError, FileType, InvalidArgumentError, Sandbox, SandboxError, TemplateError } from 'e2b'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startE2bDouble, type E2bDouble } from '../double/e2b-double.ts'

const HOME = '/home/user'

needs('bwrap').describe('E2B’s double, called by E2B’s SDK for files,', () => {
  let double: E2bDouble
  let sandbox: Sandbox

  beforeAll(async () => {
    double = await startE2bDouble()
    sandbox = await Sandbox.create('base', {
      apiKey: double.apiKey,
      apiUrl: double.origin,
      sandboxUrl: double.origin,
      timeoutMs: 600_000,
    })
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
  })

  const streamed = async (path: string): Promise<string> => {
    const parts: Uint8Array[] = []
    const stream = await sandbox.files.read(path, { format: 'stream' })
    for await (const part of stream as unknown as AsyncIterable<Uint8Array>) parts.push(part)
    return Buffer.concat(parts).toString()
  }

  it('writes, overwrites and reads a file, also in folders that did not exist', async () => {
    expect(await sandbox.files.write('a.txt', 'first')).toEqual({
      name: 'a.txt',
      path: `${HOME}/a.txt`,
      type: 'file',
    })
    await sandbox.files.write('a.txt', 'second')
    expect(await sandbox.files.read('a.txt')).toBe('second')
    await sandbox.files.write('not/there/a.txt', 'third')
    expect(await sandbox.files.exists('not/there/a.txt')).toBe(true)
    expect(await sandbox.files.exists('not/here')).toBe(false)
    await sandbox.files.write('~/b.txt', 'home')
    expect(await sandbox.files.read(`${HOME}/b.txt`)).toBe('home')
  })

  it('writes many files at once, of every kind of data', async () => {
    expect(await sandbox.files.write([])).toEqual([])
    const texts = Array.from({ length: 10 }, (_, n) => ({
      path: n % 2 === 0 ? `many/${n}.txt` : `${HOME}/many/${n}.txt`,
      data: `file ${n}`,
    }))
    const infos = await sandbox.files.writeFiles(texts)
    expect(infos.map(({ path }) => path)).toEqual(texts.map((_, n) => `${HOME}/many/${n}.txt`))
    const kinds = [
      { path: 'text', data: 'plain' },
      { path: 'buffer', data: new TextEncoder().encode('plain').buffer },
      { path: 'blob', data: new Blob(['plain']) },
      { path: 'stream', data: new Blob(['plain']).stream() },
    ]
    await sandbox.files.writeFiles(kinds)
    for (const { path } of kinds) expect(await sandbox.files.read(path)).toBe('plain')
  })

  it('accepts raw and compressed uploads, and offers compressed downloads', async () => {
    const content = 'streamed and compressed. '.repeat(10_000)
    const stream = (): ReadableStream => new Blob([content]).stream()
    await sandbox.files.write('raw', stream(), { useOctetStream: true })
    await sandbox.files.write('raw.gz', stream(), { useOctetStream: true, gzip: true })
    await sandbox.files.writeFiles([{ path: 'more.gz', data: content }], { gzip: true })
    for (const path of ['raw', 'raw.gz', 'more.gz']) expect(await sandbox.files.read(path)).toBe(content)
    const bytes = await sandbox.files.read('raw', { format: 'bytes', gzip: true })
    expect(new TextDecoder().decode(bytes)).toBe(content)
    expect(await streamed('raw')).toBe(content)
  })

  it('names the encoding of its answers, and refuses encodings that envd does not support', async () => {
    await sandbox.files.write('encoded.txt', 'plain')
    const get = async (encoding: string): Promise<Response> =>
      await fetch(`${double.origin}/files?path=encoded.txt`, {
        headers: { ...direct(), 'Accept-Encoding': encoding },
      })
    expect((await get('gzip')).headers.get('content-encoding')).toBe('gzip')
    expect((await get('identity')).headers.get('content-encoding')).toBeNull()
    const refused = await get('br, identity;q=0')
    expect([refused.status, await refused.json()]).toMatchObject([406, { code: 406 }])
    const post = async (headers: object): Promise<Response> =>
      await fetch(`${double.origin}/files?path=refused`, {
        method: 'POST',
        headers: { ...direct(), ...headers },
        body: 'x',
      })
    for (const headers of [
      { 'Content-Type': 'application/octet-stream', 'Content-Encoding': 'br' },
      { 'Content-Type': 'application/json' },
    ])
      expect((await post(headers)).status).toBe(400)
    expect(await sandbox.files.exists('refused')).toBe(false)
  })

  it('reads an empty file in every format', async () => {
    await sandbox.commands.run('touch empty')
    expect(await sandbox.files.read('empty', { format: 'text' })).toBe('')
    expect((await sandbox.files.read('empty', { format: 'bytes' })).length).toBe(0)
    expect((await sandbox.files.read('empty', { format: 'blob' })).size).toBe(0)
    expect(await streamed('empty')).toBe('')
    expect((await sandbox.files.getInfo('empty')).size).toBe(0)
  })

  it('reports that a file does not exist, or is a folder', async () => {
    await expect(sandbox.files.read('absent')).rejects.toBeInstanceOf(FileNotFoundError)
    await expect(sandbox.files.read('absent', { format: 'stream' })).rejects.toBeInstanceOf(FileNotFoundError)
    await expect(sandbox.files.getInfo('absent')).rejects.toBeInstanceOf(FileNotFoundError)
    await expect(sandbox.files.list('absent')).rejects.toBeInstanceOf(FileNotFoundError)
    await expect(sandbox.files.rename('absent', 'b')).rejects.toBeInstanceOf(FileNotFoundError)
    await sandbox.files.remove('absent')
    await sandbox.files.makeDir('folder')
    await expect(sandbox.files.read('folder')).rejects.toBeInstanceOf(InvalidArgumentError)
    await expect(sandbox.files.write('folder', 'x')).rejects.toBeInstanceOf(InvalidArgumentError)
    await sandbox.files.write('file', 'x')
    await expect(sandbox.files.list('file')).rejects.toBeInstanceOf(InvalidArgumentError)
    await expect(sandbox.files.makeDir('file')).rejects.toBeInstanceOf(InvalidArgumentError)
  })

  it('reports errors of its file system, and goes on', async () => {
    await sandbox.files.write('in-the-way', 'x')
    await expect(sandbox.files.makeDir('in-the-way/below')).rejects.toBeInstanceOf(SandboxError)
    await expect(sandbox.files.write('in-the-way/below', 'x')).rejects.toBeInstanceOf(SandboxError)
    await expect(sandbox.files.write('/proc/refused', 'x')).rejects.toBeInstanceOf(SandboxError)
    await expect(sandbox.files.write('x'.repeat(300), 'x')).rejects.toBeInstanceOf(SandboxError)
    await sandbox.files.makeDir('full/below')
    await sandbox.files.makeDir('other/below')
    await expect(sandbox.files.rename('full', 'other')).rejects.toBeInstanceOf(SandboxError)
    await expect(sandbox.files.remove('/proc/1/status')).rejects.toBeInstanceOf(SandboxError)
    expect(await sandbox.files.read('in-the-way')).toBe('x')
  })

  it('creates each folder once', async () => {
    expect(await sandbox.files.makeDir('made/nested')).toBe(true)
    expect(await sandbox.files.exists('made/nested')).toBe(true)
    expect(await sandbox.files.makeDir('made/nested')).toBe(false)
  })

  it('describes files, folders and links', async () => {
    await sandbox.files.write('told/file.txt', 'test')
    await sandbox.files.makeDir('told/sub')
    await sandbox.commands.run('cd told && ln -s file.txt link && ln -s sub way && ln -s nowhere broken')
    const common = { owner: 'user', group: 'user', modifiedTime: expect.any(Date) as Date }
    expect(await sandbox.files.getInfo('told/file.txt')).toMatchObject({
      ...common,
      name: 'file.txt',
      type: FileType.FILE,
      path: `${HOME}/told/file.txt`,
      size: 4,
      mode: 0o644,
      permissions: '-rw-r--r--',
    })
    expect(await sandbox.files.getInfo('told/sub')).toMatchObject({
      ...common,
      type: FileType.DIR,
      mode: 0o755,
      permissions: 'drwxr-xr-x',
    })
    // Type and mode of a link are those of its target.
    expect(await sandbox.files.getInfo('told/link')).toMatchObject({
      name: 'link',
      type: FileType.FILE,
      mode: 0o644,
      permissions: 'Lrwxrwxrwx',
      symlinkTarget: `${HOME}/told/file.txt`,
    })
    // A broken link has no type, so the SDK leaves it out.
    expect((await sandbox.files.list('told')).map(({ name, type }) => [name, type])).toEqual([
      ['file.txt', 'file'],
      ['link', 'file'],
      ['sub', 'dir'],
      ['way', 'dir'],
    ])
    await sandbox.files.write('told/sub/inside', '')
    expect((await sandbox.files.list('told/way')).map(({ path }) => path)).toEqual([
      `${HOME}/told/way/inside`,
    ])
  })

  it('lists to a given depth, in the order of a walk', async () => {
    for (const folder of ['deep/b/bb', 'deep/a/aa']) await sandbox.files.makeDir(folder)
    await sandbox.files.write('deep/c.txt', 'x')
    const paths = async (depth?: number): Promise<string[]> =>
      (await sandbox.files.list('deep', depth === undefined ? {} : { depth })).map(({ path }) =>
        path.slice(`${HOME}/deep/`.length),
      )
    expect(await paths()).toEqual(['a', 'b', 'c.txt'])
    expect(await paths(1)).toEqual(['a', 'b', 'c.txt'])
    expect(await paths(2)).toEqual(['a', 'a/aa', 'b', 'b/bb', 'c.txt'])
    expect(await paths(3)).toEqual(['a', 'a/aa', 'b', 'b/bb', 'c.txt'])
    await expect(paths(0)).rejects.toBeInstanceOf(InvalidArgumentError)
  })

  it('renames into folders that did not exist, and removes whole trees', async () => {
    await sandbox.files.write('old/a.txt', 'moved')
    expect(await sandbox.files.rename('old/a.txt', 'new/place/b.txt')).toMatchObject({
      name: 'b.txt',
      type: 'file',
      path: `${HOME}/new/place/b.txt`,
    })
    expect(await sandbox.files.exists('old/a.txt')).toBe(false)
    expect(await sandbox.files.read('new/place/b.txt')).toBe('moved')
    await sandbox.files.remove('new')
    expect(await sandbox.files.exists('new')).toBe(false)
  })

  it('lets anybody with a signed address read or write, while the address is valid', async () => {
    await sandbox.files.write('signed.txt', 'hello world')
    const { 'X-Access-Token': _, ...address } = direct()
    const asked = async (url: string, init: RequestInit = {}): Promise<[number, string]> => {
      const response = await fetch(url, { ...init, headers: address })
      return [response.status, await response.text()]
    }
    const form = (): RequestInit => {
      const body = new FormData()
      body.append('file', 'file content')
      return { method: 'POST', body }
    }
    expect(await asked(await sandbox.downloadUrl('signed.txt'))).toEqual([200, 'hello world'])
    const soon = { useSignatureExpiration: 100 }
    expect(await asked(await sandbox.downloadUrl('signed.txt', soon))).toEqual([200, 'hello world'])
    const [status, written] = await asked(await sandbox.uploadUrl('signed.txt', soon), form())
    const entry = { path: `${HOME}/signed.txt`, name: 'signed.txt', type: 'file' }
    expect([status, JSON.parse(written)]).toEqual([200, [entry]])
    expect(await sandbox.files.read('signed.txt')).toBe('file content')
    const late = { useSignatureExpiration: -100 }
    const refusal = (message: string): string => `{"code": 401, "message": "${message}"}`
    const expired = [401, refusal('signature is already expired')]
    expect(await asked(await sandbox.downloadUrl('signed.txt', late))).toEqual(expired)
    expect(await asked(await sandbox.uploadUrl('signed.txt', late), form())).toEqual(expired)
    const other = (await sandbox.downloadUrl('signed.txt', soon)).replace('signed.txt', 'a.txt')
    expect(await asked(other)).toEqual([401, refusal('invalid signature')])
    // An address for reading gives no right to write.
    expect((await asked(await sandbox.downloadUrl('signed.txt', soon), form()))[0]).toBe(401)
    expect((await asked(`${double.origin}/files?path=signed.txt`))[0]).toBe(401)
    expect((await asked(`${double.origin}/envs`))[0]).toBe(401)
  })

  it('has an envd too old for metadata and entries of events, as the SDK reports', async () => {
    await expect(sandbox.files.write('m', 'x', { metadata: { a: 'b' } })).rejects.toBeInstanceOf(
      TemplateError,
    )
    await expect(sandbox.files.watchDir('.', () => undefined, { includeEntry: true })).rejects.toBeInstanceOf(
      TemplateError,
    )
  })

  /** The headers that the SDK sends to this sandbox's envd. */
  function direct(): { 'E2b-Sandbox-Id': string; 'E2b-Sandbox-Port': string; 'X-Access-Token': string } {
    const { envdAccessToken = '' } = sandbox as unknown as { envdAccessToken?: string }
    return {
      'E2b-Sandbox-Id': sandbox.sandboxId,
      'E2b-Sandbox-Port': '49983',
      'X-Access-Token': envdAccessToken,
    }
  }
})
