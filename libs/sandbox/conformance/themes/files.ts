/** Files in and out: complete, only in the work directory, never through a link of the program. */
import { randomBytes } from 'node:crypto'
import { MAX_LIMITS, type Sandbox } from '@cofferdam/contract'
import { isLongTier } from '@cofferdam/embedded/needs'
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

/** An emulated machine took 97 s while other tests ran. */
const LARGEST_MS = 400_000

const bytes = (text: string): Buffer => Buffer.from(text)

export function files(h: Harness): void {
  const { programs } = h
  if (!h.capabilities.files) return

  test('gives files to the program, and creates their directories', async () => {
    const sandbox = await h.open(programs.exit(0))
    await sandbox.write([{ path: 'data/deep/in.txt', bytes: bytes('from outside') }])
    const { stdout } = await h.run(sandbox, programs.cat('data/deep/in.txt'))
    expect(stdout.toString()).toBe('from outside')
  })

  test('starts with an empty work directory', async () => {
    const sandbox = await h.open(programs.exit(0))
    expect(await sandbox.list(['**'], 100)).toEqual([])
  })

  test('returns files that the program wrote', async () => {
    const sandbox = await h.open(programs.exit(0))
    await h.run(sandbox, programs.writeFile('out/result.txt', 'from inside'))
    expect(await sandbox.list(['out/*.txt'], 100)).toEqual([{ path: 'out/result.txt', size: 11 }])
    expect(Buffer.from(await sandbox.read('out/result.txt', 1000)).toString()).toBe('from inside')
  })

  test('carries 8 MiB and an empty file unchanged in both directions', async () => {
    const big = randomBytes(8 << 20)
    const sandbox = await h.open(programs.exit(0))
    await sandbox.write([
      { path: 'big.bin', bytes: big },
      { path: 'empty', bytes: new Uint8Array() },
    ])
    expect(Buffer.from(await sandbox.read('big.bin', big.length)).equals(big)).toBe(true)
    expect((await sandbox.read('empty', 10)).length).toBe(0)
  })

  const { fillDisk } = programs
  if (fillDisk !== undefined && isLongTier()) {
    const timeout = Math.max(LARGEST_MS, h.options.testMs ?? 0)
    test('returns a file of the largest size', { timeout }, async () => {
      const size = MAX_LIMITS.artifact_bytes
      const sandbox = await h.open(programs.exit(0), { limits: { disk_mib: 256, memory_mib: 512 } })
      await h.run(sandbox, fillDisk(size >> 20))
      const [large] = await sandbox.list(['*'], 10)
      expect(large?.size).toBe(size)
      expect(await sandbox.read(large?.path ?? '', size)).toHaveLength(size)
    })
  }

  test('replaces a file that is written again', async () => {
    const sandbox = await h.open(programs.exit(0))
    await sandbox.write([{ path: 'a.txt', bytes: bytes('a longer first text') }])
    await sandbox.write([{ path: 'a.txt', bytes: bytes('second') }])
    expect(Buffer.from(await sandbox.read('a.txt', 100)).toString()).toBe('second')
  })

  test('lists files by globs, up to the requested number', async () => {
    const sandbox = await h.open(programs.exit(0))
    const paths = ['a.txt', 'b.log', 'sub/c.txt', 'sub/deep/d.txt']
    await sandbox.write(paths.map((path) => ({ path, bytes: bytes(path) })))
    const found = async (...globs: string[]): Promise<string[]> =>
      (await sandbox.list(globs, 100)).map((entry) => entry.path).toSorted()
    expect(await found('*.txt')).toEqual(['a.txt'])
    expect(await found('**/*.txt')).toEqual(['a.txt', 'sub/c.txt', 'sub/deep/d.txt'])
    expect(await found('*.log', 'sub/*')).toEqual(['b.log', 'sub/c.txt'])
    expect(await found('nothing/*')).toEqual([])
    expect(await sandbox.list(['**'], 2)).toHaveLength(2)
  })

  test('enters no folder that a glob with ! names, nor its subfolders', async () => {
    const sandbox = await h.open(programs.exit(0))
    const paths = ['a.txt', 'skip.txt', 'skip/b.txt', 'skip/deep/c.txt', 'sub/skip/d.txt', 'sub/e.txt']
    await sandbox.write(paths.map((path) => ({ path, bytes: bytes(path) })))
    const found = (await sandbox.list(['**/*.txt', '!**/skip'], 100)).map((entry) => entry.path).toSorted()
    expect(found).toEqual(['a.txt', 'skip.txt', 'sub/e.txt'])
  })

  test('refuses to read a file above the requested size, or a missing file', async () => {
    const sandbox = await h.open(programs.exit(0))
    await sandbox.write([{ path: 'ten', bytes: bytes('0123456789') }])
    await expect(sandbox.read('ten', 9)).rejects.toMatchObject({ code: 'payload_too_large' })
    expect((await sandbox.read('ten', 10)).length).toBe(10)
    await expect(sandbox.read('none', 10)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('removes a file', async () => {
    const sandbox = await h.open(programs.exit(0))
    await sandbox.write([{ path: 'd/a', bytes: bytes('a') }])
    await sandbox.remove('d/a')
    await expect(sandbox.read('d/a', 10)).rejects.toMatchObject({ code: 'not_found' })
  })

  // A backend may send files with its next request, which then fails.
  const writeAndLook = async (sandbox: Sandbox, path: string): Promise<void> => {
    await sandbox.write([{ path, bytes: bytes('x') }])
    await sandbox.list(['**'], 100)
  }

  test.each(['../escape', '/etc/hostname', 'a/../../escape', './a', 'a//b', ''])(
    'refuses the path %j',
    async (path) => {
      const sandbox = await h.open(programs.exit(0))
      await expect(writeAndLook(sandbox, path)).rejects.toMatchObject({ code: 'invalid_request' })
      await expect(sandbox.read(path, 100)).rejects.toMatchObject({ code: 'invalid_request' })
    },
  )

  const { symlink, execute } = programs
  if (symlink !== undefined) {
    test('reads no file through a link to a file or directory', async () => {
      const sandbox = await h.open(programs.exit(0))
      await h.run(sandbox, symlink('/etc/passwd', 'link'))
      const listed = await sandbox.list(['**'], 100)
      expect(listed.map((entry) => entry.path)).not.toContain('link')
      const links = (await sandbox.links?.(['**'], 100)) ?? [{ path: 'link' }]
      expect(links.map((entry) => entry.path)).toEqual(['link'])
      await expect(sandbox.read('link', 1_000_000)).rejects.toThrow()
    })

    test('writes and reads no file through a link to a directory', async () => {
      const sandbox = await h.open(programs.exit(0))
      await h.run(sandbox, symlink('/tmp', 'dir'))
      await expect(writeAndLook(sandbox, 'dir/planted')).rejects.toThrow()
      await expect(sandbox.read('dir/planted', 100)).rejects.toThrow()
    })
  }

  if (execute !== undefined)
    test('sets the executable bit if requested', async () => {
      const sandbox = await h.open(programs.exit(0))
      await sandbox.write([{ path: 'tool', bytes: bytes('#!/bin/sh\necho ran\n'), executable: true }])
      const { stdout } = await h.run(sandbox, execute('tool'))
      expect(stdout.toString()).toBe('ran\n')
    })
}
