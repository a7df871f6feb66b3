/** Writes a workspace to a local directory, each file atomically. Follows no link (open-below.ts). */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, rename, rmdir, unlink, type FileHandle } from 'node:fs/promises'
import { CofferdamError, type Manifest, type ProgramFile } from '@cofferdam/contract'
import { readFileBelow } from './directory.ts'
import { DEFAULT_ARCHIVE_LIMITS } from './limits.ts'
import { factsOf, sameFacts } from './manifest.ts'
import { below, hasCode, openFolder, openRoot } from './open-below.ts'
import { isCarriable } from './path-index.ts'

const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_DIRECTORY, O_NOFOLLOW } = constants

/**
 * Writes and deletes files below `root`, which must exist. Each file is written atomically. Throws at the
 * first failure. `found` is what was read before: a file that was modified since stays, and `conflict` is
 * thrown.
 */
export async function writeDirectory(
  root: string,
  change: { files: readonly ProgramFile[]; deleted: readonly string[] },
  found?: Manifest,
): Promise<void> {
  await using handle = await openRoot(root)
  for (const path of change.deleted) await deleteFile(handle, checked(path), found)
  for (const file of change.files) await writeFile(handle, file, found)
}

async function writeFile(
  root: FileHandle,
  { path, bytes, executable }: ProgramFile,
  found: Manifest | undefined,
): Promise<void> {
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
    await refuseChanged(parent, name, path, found)
    // If the name is a link, the link itself is replaced.
    await rename(`${below(parent)}/${temporary}`, `${below(parent)}/${name}`)
  } catch (error) {
    await unlink(`${below(parent)}/${temporary}`).catch(() => undefined)
    throw refused(error, path)
  }
  await parent.sync()
}

async function deleteFile(root: FileHandle, path: string, found: Manifest | undefined): Promise<void> {
  try {
    const { folder, name } = await openParent(root, path, false)
    await using parent = folder
    await refuseChanged(parent, name, path, found)
    await unlink(`${below(parent)}/${name}`)
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw refused(error, path)
    return
  }
  await removeEmptyFolders(root, path)
}

/**
 * Compares bytes, because a recreated file can have the same metadata. Callers must change the file right
 * after this, without another await.
 */
async function refuseChanged(
  folder: FileHandle,
  name: string,
  path: string,
  found: Manifest | undefined,
): Promise<void> {
  if (found === undefined) return
  const now = await readFileBelow(folder, name, path, DEFAULT_ARCHIVE_LIMITS).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  })
  if (!sameFacts(now === undefined ? undefined : factsOf(now), found.get(path)))
    throw new CofferdamError('conflict', `${path} was changed meanwhile, and is left as it is.`)
}

/** A workspace has no empty folders. */
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

function checked(path: string): string {
  if (isCarriable(path)) return path
  throw new CofferdamError(
    'invalid_request',
    `${JSON.stringify(path.slice(0, 100))} is no path of a workspace.`,
  )
}

function unless(code: string): (error: unknown) => void {
  return (error) => {
    if (!hasCode(error, code)) throw error
  }
}

/**
 * Errors from links, or from files in the place of folders, become `conflict`, which the caller can resolve.
 * Other errors pass through.
 */
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
