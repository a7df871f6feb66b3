/**
 * A workspace in a directory of this machine. Every step of a path is opened by the handle of the folder before it and
 * never through a link, so that a link that stands there, or is put there meanwhile, leads nowhere. Node has no openat:
 * /proc/self/fd stands in for it, which is why this is for Linux alone.
 */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, readdir, rename, rmdir, unlink, type FileHandle } from 'node:fs/promises'
import { CofferdamError, type ProgramFile } from '@cofferdam/contract'
import { DEFAULT_ARCHIVE_LIMITS, MAX_FOLDER_ENTRIES, type ArchiveLimits } from './limits.ts'
import { isCarriable } from './path-index.ts'
import type { CompiledRules, RuleRefusal } from './rules.ts'

const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants
/** Deep enough for any project; a path of 512 bytes has at most 256 parts. */
const MAX_DEPTH = 256

export interface ReadDirectory {
  files: ProgramFile[]
  /** What was left out, and why: rules, links and devices, names that cannot be carried. */
  refused: { path: string; reason: RuleRefusal | 'not_a_file' | 'bad_name' }[]
}

/** Throws `payload_too_large` when the files do not fit a workspace: never a part of them. */
export async function readDirectory(
  root: string,
  rules: CompiledRules,
  limits: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS,
): Promise<ReadDirectory> {
  const found: ReadDirectory = { files: [], refused: [] }
  let [total, seen] = [0, 0]
  const visit = async (folder: FileHandle, prefix: string, depth: number): Promise<void> => {
    for (const entry of (await readdir(below(folder), { withFileTypes: true })).toSorted(byName)) {
      const path = prefix + entry.name
      seen += 1
      if (seen > MAX_FOLDER_ENTRIES + limits.entries || depth > MAX_DEPTH)
        throw tooLarge(`The directory holds more than ${MAX_FOLDER_ENTRIES} entries.`)
      const refusal = isCarriable(path) ? rules.refusesIn(path) : 'bad_name'
      if (entry.isDirectory()) {
        // A folder that the rules do not name, or keep, may hold files that a rule lets through.
        if (refusal === 'never_list' || refusal === 'bad_name') found.refused.push({ path, reason: refusal })
        else {
          await using inner = await openFolder(folder, entry.name)
          await visit(inner, `${path}/`, depth + 1)
        }
      } else if (refusal !== null) found.refused.push({ path, reason: refusal })
      else if (!entry.isFile()) found.refused.push({ path, reason: 'not_a_file' })
      else {
        const file = await readFile(folder, entry.name, path, limits)
        total += file.bytes.length
        found.files.push(file)
        if (total > limits.totalBytes || found.files.length > limits.entries)
          throw tooLarge(`The files together are larger than a workspace may hold (at ${path}).`)
      }
    }
  }
  await using handle = await openRoot(root)
  await visit(handle, '', 0)
  return found
}

/** Writes and deletes below `root`, which exists. Each file is whole or not there; throws at the first that cannot be. */
export async function writeDirectory(
  root: string,
  change: { files: readonly ProgramFile[]; deleted: readonly string[] },
): Promise<void> {
  await using handle = await openRoot(root)
  for (const path of change.deleted) await deleteFile(handle, checked(path))
  for (const file of change.files) await writeFile(handle, file)
}

async function writeFile(root: FileHandle, { path, bytes, executable }: ProgramFile): Promise<void> {
  const { folder, name } = await openParent(root, checked(path), true)
  await using parent = folder
  const temporary = `.writing-${randomBytes(8).toString('hex')}`
  const mode = executable === true ? 0o755 : 0o644
  try {
    await using file = await open(
      `${below(parent)}/${temporary}`,
      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
      mode,
    )
    await file.writeFile(bytes)
    await file.sync()
    // The link itself is replaced where the name is one.
    await rename(`${below(parent)}/${temporary}`, `${below(parent)}/${name}`)
  } catch (error) {
    await unlink(`${below(parent)}/${temporary}`).catch(() => undefined)
    throw refused(error, path)
  }
  await parent.sync()
}

async function deleteFile(root: FileHandle, path: string): Promise<void> {
  try {
    const { folder, name } = await openParent(root, path, false)
    await using parent = folder
    await unlink(`${below(parent)}/${name}`)
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw refused(error, path)
    return
  }
  await removeEmptyFolders(root, path)
}

/** A workspace knows no empty folders. */
async function removeEmptyFolders(root: FileHandle, path: string): Promise<void> {
  const parts = path.split('/').slice(0, -1)
  while (parts.length > 0) {
    const { folder, name } = await openParent(root, parts.join('/'), false)
    await using parent = folder
    try {
      await rmdir(`${below(parent)}/${name}`)
    } catch {
      return
    }
    parts.pop()
  }
}

async function openParent(root: FileHandle, path: string, make: boolean) {
  const parts = path.split('/')
  const name = parts.pop() ?? ''
  let folder = await open(below(root), O_RDONLY | O_DIRECTORY)
  for (const part of parts) {
    const outer = folder
    try {
      if (make) await mkdir(`${below(outer)}/${part}`, 0o755).catch(unless('EEXIST'))
      folder = await openFolder(outer, part)
    } catch (error) {
      throw hasCode(error, 'ENOENT') ? error : refused(error, path)
    } finally {
      await outer.close()
    }
  }
  return { folder, name }
}

async function readFile(
  folder: FileHandle,
  name: string,
  path: string,
  limits: ArchiveLimits,
): Promise<ProgramFile> {
  // Not blocking: a FIFO that took the name's place would wait for its writer.
  await using file = await open(`${below(folder)}/${name}`, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  const stat = await file.stat()
  if (!stat.isFile()) throw new CofferdamError('conflict', `${path} changed while it was read.`)
  if (stat.size > limits.fileBytes) throw tooLarge(`${path} is larger than ${limits.fileBytes} bytes.`)
  // One more byte than allowed tells that it grew.
  const room = Buffer.alloc(Math.min(stat.size, limits.fileBytes) + 1)
  let length = 0
  for (;;) {
    const { bytesRead } = await file.read(room, length, room.length - length, length)
    length += bytesRead
    if (bytesRead === 0) break
    if (length === room.length) throw new CofferdamError('conflict', `${path} changed while it was read.`)
  }
  return {
    path,
    bytes: room.subarray(0, length),
    ...((stat.mode & 0o100) === 0 ? {} : { executable: true }),
  }
}

const openRoot = (root: string): Promise<FileHandle> => {
  if (process.platform !== 'linux')
    throw new CofferdamError(
      'capability_missing',
      'Workspaces in directories are for Linux: they need /proc/self/fd.',
    )
  return open(root, O_RDONLY | O_DIRECTORY)
}

const openFolder = (folder: FileHandle, name: string): Promise<FileHandle> =>
  open(`${below(folder)}/${name}`, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

const below = ({ fd }: FileHandle): string => `/proc/self/fd/${fd}`

function checked(path: string): string {
  if (isCarriable(path)) return path
  throw new CofferdamError(
    'invalid_request',
    `${JSON.stringify(path.slice(0, 100))} is no path of a workspace.`,
  )
}

const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1)
const tooLarge = (message: string) => new CofferdamError('payload_too_large', message)
const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code

function unless(code: string): (error: unknown) => void {
  return (error) => {
    if (!hasCode(error, code)) throw error
  }
}

/** Links and files where folders belong are the caller's to remove; the rest passes as it is. */
function refused(error: unknown, path: string): unknown {
  const isOdd = ['ELOOP', 'ENOTDIR', 'EISDIR', 'ENOTEMPTY', 'EEXIST'].some((code) => hasCode(error, code))
  return isOdd
    ? new CofferdamError(
        'conflict',
        `${path} cannot be written: a link or another thing stands in its way.`,
        {
          cause: error,
        },
      )
    : error
}
