/**
 * The blob store in a local directory: tenant/day/execution/file. A blob is written under a temporary name
 * and renamed on commit. No symbolic link is followed: a blob's folder must resolve to itself, and files are
 * opened with O_NOFOLLOW.
 */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, readdir, realpath, rename, rm, rmdir, unlink, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { CofferdamError, type BlobKey, type BlobSink, type BlobStore } from '@cofferdam/contract'
import { isSealed, newBlobPath, blobPathOf, refOf, tenantFolder, type BlobPath } from './blob-ref.ts'
import { createOutputKeys, type OutputKeys } from './output-keys.ts'
import { createSealingWriter, readSealed } from './sealed-blobs.ts'

/** Equal to the largest artifact (MAX_LIMITS.artifact_bytes). Only a fault can exceed it. */
const MAX_BLOB_BYTES = 64 * 1024 * 1024

export interface LocalBlobs extends BlobStore {
  /**
   * Deletes the folders of executions from before `day` (`YYYYMMDD`) whose ID `known` does not return. Asks
   * for a thousand at a time. Returns the number of deleted folders.
   */
  prune(day: string, known: (executionIds: string[]) => Promise<Set<string>>): Promise<number>
  /** Deletes the folders of one tenant's executions from before `day` whose ID `ended` returns. */
  pruneTenant(
    tenantId: string,
    day: string,
    ended: (executionIds: string[]) => Promise<Set<string>>,
  ): Promise<number>
}

/** Opens the blob store in `dir`, which is created if absent (mode 700). */
export async function createLocalBlobs(
  dir: string,
  keys: OutputKeys = createOutputKeys([]),
): Promise<LocalBlobs> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const root = await realpath(dir)
  return {
    create: (key) => createSink(root, key, keys),
    async read(ref, range) {
      const blob = blobPathOf(ref)
      if (blob === null) return null
      const file = await openExisting(root, blob)
      if (file === null) return null
      try {
        const stat = await file.stat()
        if (!stat.isFile()) return null
        const fetch = (start: number, end: number) => readRange(file, stat.size, { start, end })
        return isSealed(blob)
          ? await readSealed(keys, sealedLocation(blob), stat.size, fetch, range)
          : { bytes: await readRange(file, stat.size, range), total: stat.size }
      } finally {
        await file.close()
      }
    },
    async delete(ref) {
      const blob = blobPathOf(ref)
      if (blob === null || !(await isPlainFolder(root, blob))) return
      await unlink(join(folderOf(root, blob), blob.file)).catch(ignore('ENOENT'))
      await rmdir(folderOf(root, blob)).catch(ignore('ENOENT', 'ENOTEMPTY', 'EEXIST'))
    },
    prune: (day, known) => prune(root, day, known),
    pruneTenant: async (tenantId, day, ended) => {
      const name = tenantFolder(tenantId)
      if (!(await folders(root)).includes(name)) return 0
      return await pruneDays(join(root, name), day, ended)
    },
  }
}

const folderOf = (root: string, blob: BlobPath): string => join(root, blob.tenant, blob.day, blob.execution)

/** Identifies the tenant by its folder, because a reader has only the reference. */
const sealedLocation = (blob: BlobPath) => ({ tenant: blob.tenant, location: refOf(blob) })

async function createSink(root: string, key: BlobKey, keys: OutputKeys): Promise<BlobSink> {
  if (key.encrypt && keys.current === null)
    throw new CofferdamError('internal', 'The blob has to be encrypted, and there is no key for it.')
  const blob = newBlobPath(key)
  const folder = folderOf(root, blob)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (!(await isPlainFolder(root, blob)))
    throw new CofferdamError('internal', 'The blob directory holds a symlink where a folder belongs.')
  const temporary = join(folder, `.writing-${randomBytes(8).toString('hex')}`)
  let file: FileHandle | null = await open(temporary, 'wx', 0o600)
  let size = 0
  let committed: string | null = null

  async function abort(): Promise<void> {
    if (file === null) return
    const closing = file
    file = null
    await closing.close()
    await unlink(temporary).catch(ignore('ENOENT'))
    await rmdir(folder).catch(ignore('ENOENT', 'ENOTEMPTY', 'EEXIST'))
  }

  async function append(bytes: Uint8Array): Promise<void> {
    // writeFile on a handle appends after the last write, and writes everything.
    await file?.writeFile(bytes)
  }
  const sealing =
    key.encrypt && keys.current !== null
      ? createSealingWriter(keys.current, sealedLocation(blob), append)
      : null

  return {
    async write(chunk) {
      if (file === null) throw new CofferdamError('internal', 'The blob was already committed or aborted.')
      size += chunk.length
      if (size > MAX_BLOB_BYTES)
        throw new CofferdamError('payload_too_large', `A blob may hold ${MAX_BLOB_BYTES} bytes.`)
      await (sealing === null ? append(chunk) : sealing.write(chunk))
    },
    async commit() {
      if (committed !== null) return committed
      if (file === null) throw new CofferdamError('internal', 'The blob was aborted.')
      await sealing?.end()
      // A blob that a row refers to must survive a power cut.
      await file.datasync()
      await file.close()
      file = null
      await rename(temporary, join(folder, blob.file))
      committed = refOf(blob)
      return committed
    },
    abort,
  }
}

async function openExisting(root: string, blob: BlobPath): Promise<FileHandle | null> {
  if (!(await isPlainFolder(root, blob))) return null
  try {
    const path = join(folderOf(root, blob), blob.file)
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    ignore('ENOENT', 'ELOOP', 'ENXIO')(error)
    return null
  }
}

/** True when the folder exists and no part of its path is a symbolic link. */
async function isPlainFolder(root: string, blob: BlobPath): Promise<boolean> {
  const folder = folderOf(root, blob)
  try {
    return (await realpath(folder)) === folder
  } catch (error) {
    ignore('ENOENT', 'ELOOP', 'ENOTDIR')(error)
    return false
  }
}

async function readRange(
  file: FileHandle,
  total: number,
  range: { start: number; end: number } | undefined,
): Promise<Uint8Array> {
  const start = Math.min(Math.max(range?.start ?? 0, 0), total)
  const end = Math.min(Math.max(range?.end ?? total, start), total)
  const bytes = Buffer.alloc(end - start)
  let filled = 0
  while (filled < bytes.length) {
    const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, start + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return bytes.subarray(0, filled)
}

async function prune(
  root: string,
  before: string,
  known: (executionIds: string[]) => Promise<Set<string>>,
): Promise<number> {
  let deleted = 0
  for (const tenant of await folders(root))
    deleted += await pruneDays(join(root, tenant), before, async (ids) => {
      const kept = await known(ids)
      return new Set(ids.filter((id) => !kept.has(id)))
    })
  return deleted
}

/** Deletes a tenant's executions from before the day `before` whose ID `gone` returns. */
async function pruneDays(
  tenantDir: string,
  before: string,
  gone: (executionIds: string[]) => Promise<Set<string>>,
): Promise<number> {
  let deleted = 0
  for (const day of await folders(tenantDir)) {
    if (!/^\d{8}$/.test(day) || day >= before) continue
    const dir = join(tenantDir, day)
    const ids = (await folders(dir)).filter((name) => /^exe_[0-9a-f]{32}$/.test(name))
    for (let at = 0; at < ids.length; at += 1000) {
      const some = await gone(ids.slice(at, at + 1000))
      for (const id of some) await rm(join(dir, id), { recursive: true, force: true })
      deleted += some.size
    }
    await rmdir(dir).catch(ignore('ENOENT', 'ENOTEMPTY', 'EEXIST'))
  }
  return deleted
}

async function folders(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true })
  return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name)
}

function ignore(...codes: string[]): (error: unknown) => void {
  return (error) => {
    if (error instanceof Error && 'code' in error && codes.includes(String(error.code))) return
    throw error
  }
}
