import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { newExecutionId, type BlobKey } from '@cofferdam/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLocalBlobs, type LocalBlobs } from '../src/local-blobs.ts'

let dir: string
let root: string
let blobs: LocalBlobs

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
  root = join(dir, 'blobs')
  writeFileSync(join(dir, 'secret'), 'outside')
  blobs = await createLocalBlobs(root)
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const key = (changed: Partial<BlobKey> = {}): BlobKey => ({
  tenantId: 'acme',
  executionId: newExecutionId(),
  attempt: 1,
  encrypt: false,
  name: 'stdout',
  ...changed,
})

async function put(text: string, changed: Partial<BlobKey> = {}): Promise<string> {
  const sink = await blobs.create(key(changed))
  await sink.write(Buffer.from(text))
  return await sink.commit()
}

const text = async (ref: string, range?: { start: number; end: number }): Promise<string | null> => {
  const blob = await blobs.read(ref, range)
  return blob === null ? null : Buffer.from(blob.bytes).toString()
}
const files = (): string[] =>
  readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => entry.name)

describe('the local blob store', () => {
  it('returns what was written in pieces, whole and in ranges', async () => {
    const sink = await blobs.create(key())
    for (const piece of ['0123', '4567', '89']) await sink.write(Buffer.from(piece))
    const ref = await sink.commit()
    expect(await text(ref)).toBe('0123456789')
    expect(await text(ref, { start: 2, end: 5 })).toBe('234')
    expect(await text(ref, { start: 8, end: 99 })).toBe('89')
    expect(await blobs.read(ref, { start: 50, end: 60 })).toEqual({ bytes: Buffer.alloc(0), total: 10 })
    expect(await text(ref, { start: -5, end: 2 })).toBe('01')
  })

  it('shows nothing before the commit and leaves nothing after an abort', async () => {
    const sink = await blobs.create(key())
    await sink.write(Buffer.from('half'))
    expect(files()).toEqual([expect.stringMatching(/^\.writing-/)])
    await sink.abort()
    await sink.abort()
    expect(files()).toEqual([])
    await expect(sink.write(Buffer.from('more'))).rejects.toMatchObject({ code: 'internal' })
    const kept = await blobs.create(key())
    const ref = await kept.commit()
    await kept.abort()
    expect(await kept.commit()).toBe(ref)
    expect(await text(ref)).toBe('')
  })

  it("never lets a second writer of the same key replace the first one's blob", async () => {
    const same = key()
    const first = await put('first', same)
    const second = await put('second', same)
    expect([await text(first), await text(second)]).toEqual(['first', 'second'])
  })

  it('separates names that look alike to a file system', async () => {
    const refs = [
      await put('1', { tenantId: 'Acme' }),
      await put('2', { tenantId: 'acme' }),
      await put('3', { name: 'artifacts/a/b' }),
      await put('4', { name: 'artifacts/a_b' }),
    ]
    expect(new Set(refs.map((ref) => ref.toLowerCase())).size).toBe(4)
    expect(await Promise.all(refs.map((ref) => text(ref)))).toEqual(['1', '2', '3', '4'])
  })

  it.each([
    '../../../secret',
    '..',
    '.',
    '/etc/passwd',
    'artifacts/../../x',
    'a\0b',
    'ü'.repeat(400),
    '',
    '-rf',
  ])('stores a blob with the name %j inside the folder of its execution', async (name) => {
    const ref = await put('inside', { name, tenantId: name })
    expect(await text(ref)).toBe('inside')
    expect(ref.split('/')).toHaveLength(4)
    expect(ref.split('/')).not.toContain('..')
    expect(readdirSync(dir).toSorted()).toEqual(['blobs', 'secret'])
  })

  it.each([
    '../secret',
    '/etc/passwd',
    '',
    '.',
    'a/b/c/d',
    '..%2fsecret',
    'x/../../secret',
    '../'.repeat(8) + 'etc/passwd',
  ])('finds nothing for the reference %j', async (ref) => {
    expect(await blobs.read(ref)).toBe(null)
    await blobs.delete(ref)
  })

  it('refuses altered references', async () => {
    const ref = await put('here')
    const [tenant, day, execution, file] = ref.split('/') as [string, string, string, string]
    for (const bent of [
      `${ref}/..`,
      `${ref}\n`,
      `./${ref}`,
      [tenant, day, execution, '..', execution, file].join('/'),
      [tenant, day, execution, `../${execution}/${file}`].join('/'),
      [tenant, '..', day, execution, file].join('/'),
      ref.replaceAll('/', '\\'),
      ref.toUpperCase(),
    ])
      expect(await blobs.read(bent), bent).toBe(null)
    expect(await text(ref)).toBe('here')
  })

  it('follows no symbolic link, neither for the file nor for a folder on its path', async () => {
    const asFile = await put('real')
    rmSync(join(root, asFile))
    symlinkSync(join(dir, 'secret'), join(root, asFile))
    expect(await blobs.read(asFile)).toBe(null)

    const changed = key()
    const asFolder = await put('real', changed)
    const folder = dirname(join(root, asFolder))
    renameSync(folder, join(dir, 'moved'))
    symlinkSync(join(dir, 'moved'), folder)
    expect(await blobs.read(asFolder)).toBe(null)
    await blobs.delete(asFolder)
    expect(readdirSync(join(dir, 'moved'))).toHaveLength(1)
    await expect(blobs.create(changed)).rejects.toMatchObject({ code: 'internal' })
  })

  it('does not read a folder as a blob', async () => {
    const ref = await put('real')
    rmSync(join(root, ref))
    mkdirSync(join(root, ref))
    expect(await blobs.read(ref)).toBe(null)
  })

  it('deletes a blob, and does nothing the second time', async () => {
    const ref = await put('gone')
    await blobs.delete(ref)
    await blobs.delete(ref)
    expect(await blobs.read(ref)).toBe(null)
    expect(files()).toEqual([])
  })

  it('refuses invalid execution IDs and far too large blobs', async () => {
    await expect(blobs.create(key({ executionId: '../../x' }))).rejects.toMatchObject({
      code: 'invalid_request',
    })
    await expect(blobs.create(key({ attempt: 0.5 }))).rejects.toMatchObject({ code: 'invalid_request' })
    const sink = await blobs.create(key())
    const chunk = Buffer.alloc(32 * 1024 * 1024)
    await sink.write(chunk)
    await sink.write(chunk)
    await expect(sink.write(Buffer.from('x'))).rejects.toMatchObject({ code: 'payload_too_large' })
    await sink.abort()
    expect(files()).toEqual([])
  })
})
