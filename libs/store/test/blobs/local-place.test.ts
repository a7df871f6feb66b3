import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { newExecutionId } from '@cofferdam/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createBlobStore } from '../../src/blobs/blob-store.ts'
import { createLocalPlace } from '../../src/blobs/local-place.ts'
import { createOutputKeys } from '../../src/output-keys.ts'
import { blobKey, blobText, exerciseBlobs, putBlob, type SeenBlobs } from './blob-contract.ts'

let dir: string
let root: string
let seen: SeenBlobs

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
  root = join(dir, 'blobs')
  writeFileSync(join(dir, 'secret'), 'outside')
  const keys = createOutputKeys([{ id: 'k', key: randomBytes(32) }])
  seen = {
    blobs: createBlobStore(await createLocalPlace(root), keys),
    stored: async () =>
      readdirSync(root, { recursive: true, withFileTypes: true })
        .filter((entry) => !entry.isDirectory())
        .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1)),
    read: async (path) => readFileSync(join(root, path)),
    replace: async (path, bytes) => writeFileSync(join(root, path), bytes),
    remove: async (path) => rmSync(join(root, path)),
  }
})
afterEach(() => {
  expect(readdirSync(dir).toSorted()).toEqual(expect.arrayContaining(['blobs', 'secret']))
  rmSync(dir, { recursive: true, force: true })
})

exerciseBlobs('a directory', () => seen)

describe('the blob directory', () => {
  it('writes under a temporary name until the commit', async () => {
    const sink = await seen.blobs.create(blobKey())
    await sink.write(Buffer.from('half'))
    expect(await seen.stored()).toEqual([expect.stringMatching(/\/\.writing-[0-9a-f]{16}$/)])
    await sink.abort()
    expect(readdirSync(root)).toHaveLength(1)
  })

  it('follows no symbolic link, neither for the file nor for a folder on its path', async () => {
    const asFile = await putBlob(seen, 'real')
    rmSync(join(root, asFile))
    symlinkSync(join(dir, 'secret'), join(root, asFile))
    expect(await seen.blobs.read(asFile)).toBe(null)

    const changed = blobKey()
    const asFolder = await putBlob(seen, 'real', changed)
    const folder = dirname(join(root, asFolder))
    renameSync(folder, join(dir, 'moved'))
    symlinkSync(join(dir, 'moved'), folder)
    expect(await seen.blobs.read(asFolder)).toBe(null)
    await seen.blobs.delete(asFolder)
    expect(readdirSync(join(dir, 'moved'))).toHaveLength(1)
    await expect(seen.blobs.create(changed)).rejects.toMatchObject({ code: 'internal' })
  })

  it('prunes no folder behind a symbolic link', async () => {
    const key = blobKey({ executionId: newExecutionId(Date.UTC(2026, 0, 5)) })
    const ref = await putBlob(seen, 'real', key)
    const tenant = join(root, ref.split('/')[0] ?? '')
    renameSync(tenant, join(dir, 'moved'))
    symlinkSync(join(dir, 'moved'), tenant)
    expect(await seen.blobs.prune('20270101', async () => new Set())).toBe(0)
    expect(await seen.blobs.pruneTenant('acme', '20270101', async (ids) => new Set(ids))).toBe(0)
    expect(existsSync(join(dir, 'moved', ref.slice(ref.indexOf('/') + 1)))).toBe(true)
  })

  it('does not read a folder as a blob', async () => {
    const ref = await putBlob(seen, 'real')
    rmSync(join(root, ref))
    mkdirSync(join(root, ref))
    expect(await seen.blobs.read(ref)).toBe(null)
  })

  it('reads a blob with hashes that was copied from a bucket', async () => {
    // `hash`: SHA-256 of "abc" (FIPS 180-2). `digest`: SHA-256 of the length in eight bytes (big-endian) and
    // that hash.
    const hash = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
    const digest = 'e13dee54bfc1b26042c1fec4b1d8ef2054b22fa1ab1263adce665eb013f829d5'
    const day = 'acme~0123456789abcdef/20260105'
    const path = `${day}/${newExecutionId()}/1-stdout-0123456789abcdef-0123456789abcdef-hashed`
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), Buffer.concat([Buffer.from('abc'), Buffer.from(hash, 'hex')]))
    expect(await blobText(seen, `${path}#${digest}`)).toBe('abc')
    expect(await seen.blobs.read(path)).toBe(null)
    await expect(seen.blobs.read(`${path}#${'0'.repeat(64)}`)).rejects.toMatchObject({
      code: 'stored_data_damaged',
    })
  })
})
