/**
 * Blobs in a local directory: tenant/day/execution/file. A blob is written under a temporary name and renamed
 * when it is finished. No symbolic link is followed: a blob's folder must resolve to itself, and files are
 * opened with O_NOFOLLOW.
 */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import {
  mkdir,
  open,
  readdir,
  realpath,
  rename,
  rm,
  rmdir,
  unlink,
  writeFile,
  type FileHandle,
} from 'node:fs/promises'
import { join } from 'node:path'
import { CofferdamError } from '@cofferdam/contract'
import { sqlState } from '../store-errors.ts'
import {
  DAY_FOLDER,
  EXECUTION_FOLDER,
  type AskGone,
  type BlobPlace,
  type PlaceReader,
  type PlaceWriter,
} from './blob-place.ts'
import type { BlobPath } from './blob-ref.ts'

/** Opens `dir` as a place, and creates it if it is absent (mode 700). */
export async function createLocalPlace(dir: string): Promise<BlobPlace> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const root = await realpath(dir)
  return {
    isBucket: false,
    create: (blob) => createWriter(root, blob),
    open: (blob) => openReader(root, blob),
    async delete(blob) {
      if (!(await isPlainFolder(root, blob))) return
      await unlink(join(folderOf(root, blob), blob.file)).catch(ignore('ENOENT'))
      await removeIfEmpty(folderOf(root, blob))
    },
    tenants: () => folders(root),
    async days(tenant) {
      const folder = join(root, tenant)
      if (!(await isItself(folder))) return []
      return (await folders(folder)).filter((name) => DAY_FOLDER.test(name))
    },
    sweepDay: (tenant, day, gone) => sweepDay(join(root, tenant, day), gone),
    // Nothing to do here. A temporary file lies in the folder of its execution, and `sweepDay` deletes that
    // folder.
    sweepUnfinished: async () => undefined,
    check: () => checkFolder(dir),
    [Symbol.dispose]: () => undefined,
  }
}

const folderOf = (root: string, blob: BlobPath): string => join(root, blob.tenant, blob.day, blob.execution)

const removeIfEmpty = (folder: string): Promise<void> =>
  rmdir(folder).catch(ignore('ENOENT', 'ENOTEMPTY', 'EEXIST'))

async function createWriter(root: string, blob: BlobPath): Promise<PlaceWriter> {
  const folder = folderOf(root, blob)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (!(await isPlainFolder(root, blob)))
    throw new CofferdamError('internal', 'The blob directory holds a symlink where a folder belongs.')
  const temporary = join(folder, `.writing-${randomBytes(8).toString('hex')}`)
  const file = await open(temporary, 'wx', 0o600)
  return {
    // writeFile on a handle appends after the last write, and writes everything.
    append: (bytes) => file.writeFile(bytes),
    async finish() {
      // A blob that a row refers to must survive a power cut.
      await file.datasync()
      await file.close()
      await rename(temporary, join(folder, blob.file))
    },
    async discard() {
      await file.close()
      await unlink(temporary).catch(ignore('ENOENT'))
      await removeIfEmpty(folder)
    },
  }
}

async function openReader(root: string, blob: BlobPath): Promise<PlaceReader | null> {
  const file = await openExisting(root, blob)
  if (file === null) return null
  const stat = await file.stat()
  if (!stat.isFile()) {
    await file.close()
    return null
  }
  return {
    size: stat.size,
    read: (start, end) => readRange(file, start, end),
    [Symbol.asyncDispose]: () => file.close(),
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
const isPlainFolder = (root: string, blob: BlobPath): Promise<boolean> => isItself(folderOf(root, blob))

async function isItself(folder: string): Promise<boolean> {
  try {
    return (await realpath(folder)) === folder
  } catch (error) {
    ignore('ENOENT', 'ELOOP', 'ENOTDIR')(error)
    return false
  }
}

async function readRange(file: FileHandle, start: number, end: number): Promise<Uint8Array> {
  const bytes = Buffer.alloc(end - start)
  let filled = 0
  while (filled < bytes.length) {
    const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, start + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return bytes.subarray(0, filled)
}

async function sweepDay(dir: string, gone: AskGone): Promise<number> {
  let deleted = 0
  const ids = (await folders(dir)).filter((name) => EXECUTION_FOLDER.test(name))
  for (let at = 0; at < ids.length; at += 1000) {
    const some = await gone(ids.slice(at, at + 1000))
    for (const id of some) await rm(join(dir, id), { recursive: true, force: true })
    deleted += some.size
  }
  await removeIfEmpty(dir)
  return deleted
}

async function checkFolder(dir: string): Promise<void> {
  const file = join(dir, `.check-${randomBytes(8).toString('hex')}`)
  try {
    await writeFile(file, 'x', { flag: 'wx', mode: 0o600 })
  } catch (error) {
    throw new CofferdamError(
      'config_invalid',
      'The blob folder (`blobs` below COFFERDAM_DATA_DIR) cannot be written: ' +
        `${sqlState(error) ?? 'unknown'}. Give this user the right to write there, and free disk space.`,
      { cause: error },
    )
  } finally {
    await rm(file, { force: true }).catch(() => undefined)
  }
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
