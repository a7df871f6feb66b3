/**
 * The blob store on a local directory: tenant/day/execution/file. A blob is written under a temporary name and renamed
 * on commit. No symlink is followed: the folder of a blob must resolve to itself, and files are opened with O_NOFOLLOW.
 */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, readdir, realpath, rename, rm, rmdir, unlink, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { CofferdamError, type BlobKey, type BlobSink, type BlobStore } from '@cofferdam/contract'
import { isSealed, newPlace, placeOf, refOf, tenantFolder, type BlobPlace } from './blob-ref.ts'
import { createOutputKeys, type OutputKeys } from './output-keys.ts'
import { createSealingWriter, readSealed } from './sealed-blobs.ts'

/** Four times the largest thing that is kept (contract BOUNDS.fullOutputBytes, 16 MiB): only a fault gets here. */
const MAX_BLOB_BYTES = 64 * 1024 * 1024

export interface LocalBlobs extends BlobStore {
  /**
   * Deletes the folders of executions made before `day` (`YYYYMMDD`) of which `known` does not return the id, a
   * thousand at a time. Returns how many were deleted.
   */
  prune(day: string, known: (executionIds: string[]) => Promise<Set<string>>): Promise<number>
  /** Deletes what ended executions of one tenant left before `day`; `ended` tells which of them have. */
  pruneTenant(
    tenantId: string,
    day: string,
    ended: (executionIds: string[]) => Promise<Set<string>>,
  ): Promise<number>
}

/** Opens the blob store below `dir`, which is made when absent (mode 700). */
export async function createLocalBlobs(
  dir: string,
  keys: OutputKeys = createOutputKeys([]),
): Promise<LocalBlobs> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const root = await realpath(dir)
  return {
    create: (key) => createSink(root, key, keys),
    async read(ref, range) {
      const place = placeOf(ref)
      if (place === null) return null
      const file = await openExisting(root, place)
      if (file === null) return null
      try {
        const stat = await file.stat()
        if (!stat.isFile()) return null
        const fetch = (start: number, end: number) => readRange(file, stat.size, { start, end })
        return isSealed(place)
          ? await readSealed(keys, sealedPlace(place), stat.size, fetch, range)
          : { bytes: await readRange(file, stat.size, range), total: stat.size }
      } finally {
        await file.close()
      }
    },
    async delete(ref) {
      const place = placeOf(ref)
      if (place === null || !(await isPlainFolder(root, place))) return
      await unlink(join(folderOf(root, place), place.file)).catch(ignore('ENOENT'))
      await rmdir(folderOf(root, place)).catch(ignore('ENOENT', 'ENOTEMPTY', 'EEXIST'))
    },
    prune: (day, known) => prune(root, day, known),
    pruneTenant: async (tenantId, day, ended) => {
      const name = tenantFolder(tenantId)
      if (!(await folders(root)).includes(name)) return 0
      return await pruneDays(join(root, name), day, ended)
    },
  }
}

const folderOf = (root: string, place: BlobPlace): string =>
  join(root, place.tenant, place.day, place.execution)

/** The folder's name stands for the tenant: it is made of its id (blob-ref.ts), and all that a reader has. */
const sealedPlace = (place: BlobPlace) => ({ tenant: place.tenant, place: refOf(place) })

async function createSink(root: string, key: BlobKey, keys: OutputKeys): Promise<BlobSink> {
  if (key.encrypt && keys.current === null)
    throw new CofferdamError('internal', 'The blob has to be encrypted, and there is no key for it.')
  const place = newPlace(key)
  const folder = folderOf(root, place)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (!(await isPlainFolder(root, place)))
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
    // writeFile on a handle goes on where the last write ended, and writes everything.
    await file?.writeFile(bytes)
  }
  const sealing =
    key.encrypt && keys.current !== null
      ? createSealingWriter(keys.current, sealedPlace(place), append)
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
      // What a row refers to must not be empty after a power cut.
      await file.datasync()
      await file.close()
      file = null
      await rename(temporary, join(folder, place.file))
      committed = refOf(place)
      return committed
    },
    abort,
  }
}

async function openExisting(root: string, place: BlobPlace): Promise<FileHandle | null> {
  if (!(await isPlainFolder(root, place))) return null
  try {
    const path = join(folderOf(root, place), place.file)
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    ignore('ENOENT', 'ELOOP', 'ENXIO')(error)
    return null
  }
}

/** True when the folder exists and no part of its path is a symlink. */
async function isPlainFolder(root: string, place: BlobPlace): Promise<boolean> {
  const folder = folderOf(root, place)
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

/** Deletes of a tenant's days before `before` the executions that `gone` names of those given to it. */
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
