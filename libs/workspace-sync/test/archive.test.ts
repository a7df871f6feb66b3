/** Archives: packing and unpacking round-trips, other tools read them, and hostile archives are refused. */
import { execFileSync } from 'node:child_process'
import { crc32, deflateRawSync } from 'node:zlib'
import { scheduleSeed } from '@cofferdam/embedded/testing'
import { packArchive, unpackArchive } from '@cofferdam/workspace-sync'
import type { ProgramFile } from '@cofferdam/contract'
import fc from 'fast-check'
import { expect, onTestFinished, test, vi } from 'vitest'

const text = (path: string, content: string): ProgramFile => ({ path, bytes: Buffer.from(content) })

test('unpacks the same files that it packed, whatever their content', async () => {
  const files = fc.uniqueArray(
    fc.record({
      path: fc.stringMatching(/^[a-z]{1,8}(\/[a-z0-9é日]{1,8}){0,3}\.txt$/),
      bytes: fc.oneof(
        fc.uint8Array({ maxLength: 4096 }),
        fc.nat(200_000).map((size) => new Uint8Array(size)),
      ),
      executable: fc.boolean(),
    }),
    { selector: ({ path }) => path, maxLength: 12 },
  )
  await fc.assert(
    fc.asyncProperty(files, async (all) => {
      const unpacked = await unpackArchive(await packArchive(all))
      const plain = (list: readonly ProgramFile[]) =>
        list
          .map(({ path, bytes, executable = false }) => [
            path,
            Buffer.from(bytes).toString('base64'),
            executable,
          ])
          .toSorted()
      expect(plain(unpacked)).toEqual(plain(all))
    }),
    { seed: scheduleSeed(), numRuns: 200 },
  )
})

test("Python's zipfile reads our archives, and we read its", async () => {
  const ours = await packArchive([text('notes/a.txt', 'hello '.repeat(100)), text('日本.txt', 'x')])
  const script = `
import io, sys, zipfile
zip = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))
assert zip.testzip() is None
out = io.BytesIO()
with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as made:
    made.writestr('folder/', '')
    for name in zip.namelist():
        made.writestr(name, zip.read(name))
sys.stdout.buffer.write(out.getvalue())`
  const theirs = execFileSync('python3', ['-c', script], { input: ours })
  const unpacked = await unpackArchive(theirs)
  expect(unpacked.map(({ path, bytes }) => [path, bytes.length])).toEqual([
    ['notes/a.txt', 600],
    ['日本.txt', 1],
  ])
})

/** False claims of a hostile archive about one entry. */
interface Lie {
  name?: string | Buffer
  localName?: string
  attributes?: number
  method?: number
  flags?: number
  size?: number
  crc?: number
  body?: Buffer
  /** A wrong offset of its bytes. */
  at?: number
}

function forged(lies: readonly Lie[]): Buffer {
  const bodies: Buffer[] = []
  const directory: Buffer[] = []
  let at = 0
  for (const lie of lies) {
    const content = lie.body ?? Buffer.from('x')
    const name = Buffer.from(lie.name ?? 'a')
    const head = (own: Buffer) => {
      const shared = Buffer.alloc(26)
      shared.writeUInt16LE(20, 0)
      shared.writeUInt16LE(lie.flags ?? 0x800, 2)
      shared.writeUInt16LE(lie.method ?? 0, 4)
      shared.writeUInt32LE(lie.crc ?? crc32(content), 10)
      shared.writeUInt32LE(content.length, 14)
      shared.writeUInt32LE(lie.size ?? content.length, 18)
      shared.writeUInt16LE(own.length, 22)
      return shared
    }
    const localName = Buffer.from(lie.localName ?? name)
    const local = Buffer.concat([Buffer.from('PK\u0003\u0004'), head(localName), localName, content])
    const tail = Buffer.alloc(14)
    tail.writeUInt32LE((lie.attributes ?? 0o100644 * 0x1_00_00) >>> 0, 6)
    tail.writeUInt32LE(lie.at ?? at, 10)
    directory.push(Buffer.from('PK\u0001\u0002'), Buffer.from([20, 3]), head(name), tail, name)
    bodies.push(local)
    at += local.length
  }
  const central = Buffer.concat(directory)
  const end = Buffer.alloc(18)
  end.writeUInt16LE(lies.length, 4)
  end.writeUInt16LE(lies.length, 6)
  end.writeUInt32LE(central.length, 8)
  end.writeUInt32LE(at, 12)
  return Buffer.concat([...bodies, central, Buffer.from('PK\u0005\u0006'), end])
}

const zeros = deflateRawSync(Buffer.alloc(4 * 1024 * 1024))

test.each<[string, Lie[], string]>([
  ['an absolute path', [{ name: '/etc/passwd' }], 'bad_name'],
  ['a parent folder', [{ name: 'a/../../x' }], 'bad_name'],
  ['a drive letter', [{ name: 'C:/x' }], 'bad_name'],
  ['a backslash', [{ name: '..\\x' }], 'bad_name'],
  ['a NUL', [{ name: 'a\0b' }], 'bad_name'],
  ['an empty part', [{ name: 'a//b' }], 'bad_name'],
  ['an empty name', [{ name: '' }], 'bad_name'],
  ['a name that is no UTF-8', [{ name: Buffer.from([0x61, 0xff]) }], 'bad_name'],
  ['a part of dots', [{ name: 'a/.../b' }], 'bad_name'],
  ['a link', [{ attributes: 0o120777 * 0x1_00_00 }], 'not_a_file'],
  ['a device', [{ attributes: 0o020666 * 0x1_00_00 }], 'not_a_file'],
  ['a FIFO', [{ attributes: 0o010666 * 0x1_00_00 }], 'not_a_file'],
  ['a reparse point of Windows', [{ attributes: 0x400 }], 'not_a_file'],
  [
    'a folder that is a file',
    [{ name: 'a/', attributes: 0o100644 * 0x1_00_00, body: Buffer.alloc(0) }],
    'not_a_file',
  ],
  ['a name twice', [{ name: 'a' }, { name: 'a' }], 'duplicate'],
  ['names that differ by case', [{ name: 'a' }, { name: 'A' }], 'name_collision'],
  ['folders that differ by case', [{ name: 'd/a' }, { name: 'D/b' }], 'name_collision'],
  ['a file that is a folder of another', [{ name: 'a' }, { name: 'a/b' }], 'name_collision'],
  ['another name in the local header', [{ name: 'a', localName: 'b' }], 'corrupt'],
  ['a checksum that is wrong', [{ crc: 1 }], 'corrupt'],
  ['a size that is a lie', [{ method: 8, body: zeros, size: 100 }], 'corrupt'],
  ['a bomb', [{ method: 8, body: zeros, size: 4 * 1024 * 1024 }], 'ratio'],
  ['entries over each other', [{ name: 'a' }, { name: 'b', at: 0 }], 'overlap'],
  ['encryption', [{ flags: 0x801 }], 'unsupported'],
  ['a method of its own', [{ method: 12 }], 'unsupported'],
  ['zip64', [{ size: 0xffffffff }], 'unsupported'],
  ['a file too large', [{ size: 9 * 1024 * 1024 }], 'file_too_large'],
])('refuses an archive with %s', async (_what, lies, reason) => {
  await expect(unpackArchive(forged(lies))).rejects.toMatchObject({ name: 'ArchiveRefusal', reason })
})

test('refuses 1,000 empty files in 250 folders, and names the first one', async () => {
  const deep = Array.from({ length: 1000 }, (_, at) => `${'d/'.repeat(250)}${at}`)
  const archive = forged(deep.map((name) => ({ name, body: Buffer.alloc(0) })))
  await expect(unpackArchive(archive)).rejects.toMatchObject({ reason: 'too_deep', entry: deep[0] })
  await expect(unpackArchive(archive)).rejects.toThrow('more than 32 folders')
})

test('folds each name of an archive a few times, however deep its files lie', async () => {
  const [files, depth] = [50, 32]
  const names = Array.from({ length: files }, (_, at) => `${'日/'.repeat(depth)}${at}`)
  const archive = forged(names.map((name) => ({ name })))
  const normalize = vi.spyOn(String.prototype, 'normalize')
  onTestFinished(() => normalize.mockRestore())
  expect(await unpackArchive(archive)).toHaveLength(files)
  // Folding a name normalizes it twice. Each path is folded at most three times: to check it, to compare it
  // with earlier paths, and to store it.
  expect(normalize.mock.calls.length).toBeLessThanOrEqual(files * (depth + 1) * 2 * 3)
})

test('other work of the process gets its turn while the names of an archive are checked', async () => {
  // Every look at the clock shows that a slice of time is over.
  let time = 0
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (time += 1000))
  onTestFinished(() => clock.mockRestore())
  const folders = Array.from({ length: 200 }, (_, at) => ({ name: `d${at}/`, body: Buffer.alloc(0) }))
  let [turns, isDone] = [0, false]
  const count = (): void => {
    turns += 1
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  await unpackArchive(forged(folders.map((folder) => ({ ...folder, attributes: 0 }))))
  isDone = true
  expect(turns).toBeGreaterThanOrEqual(200)
})

test('refuses an archive with too many entries or bytes, and bytes that are no archive', async () => {
  const limits = { entries: 2, totalBytes: 10, fileBytes: 6, ratio: 200 }
  const three = [text('a', '1'), text('b', '1'), text('c', '1')]
  await expect(packArchive(three, limits)).rejects.toMatchObject({ reason: 'too_many_entries' })
  await expect(unpackArchive(await packArchive(three), limits)).rejects.toMatchObject({
    reason: 'too_many_entries',
  })
  const large = [text('a', '123456'), text('b', '123456')]
  await expect(packArchive(large, limits)).rejects.toMatchObject({ reason: 'total_too_large', entry: 'b' })
  await expect(unpackArchive(await packArchive(large), limits)).rejects.toMatchObject({
    reason: 'total_too_large',
  })
  for (const bytes of [Buffer.alloc(0), Buffer.from('PK'), Buffer.alloc(100)])
    await expect(unpackArchive(bytes)).rejects.toMatchObject({ reason: 'not_an_archive' })
})

test('refuses a damaged archive, or reads it correctly', async () => {
  const good = await packArchive([text('a/b.txt', 'hello hello hello hello'), text('c', 'c')])
  await fc.assert(
    fc.asyncProperty(fc.nat(good.length - 1), fc.nat(255), async (at, value) => {
      const bytes = Buffer.from(good)
      bytes[at] = value
      const unpacked = await unpackArchive(bytes).catch((error: unknown) => {
        expect(error).toMatchObject({ name: 'ArchiveRefusal' })
        return []
      })
      for (const file of unpacked) expect(file.bytes.length).toBeLessThan(100)
    }),
    { seed: scheduleSeed(), numRuns: 2000 },
  )
})
