/**
 * Opens folders relative to the handle of their parent, and never through a link, even one that is created
 * meanwhile. Node has no openat, so this uses /proc/self/fd and works only on Linux.
 */
import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { CofferdamError } from '@cofferdam/contract'

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants

/** Opens the root folder, which may be behind a link. Throws `capability_missing` outside of Linux. */
export const openRoot = (root: string): Promise<FileHandle> => {
  if (process.platform !== 'linux')
    throw new CofferdamError(
      'capability_missing',
      'Workspaces in directories are for Linux: they need /proc/self/fd.',
    )
  return open(root, O_RDONLY | O_DIRECTORY)
}

/** Opens a folder in `folder`. Throws ELOOP or ENOTDIR if the name is a link or a file. */
export const openFolder = (folder: FileHandle, name: string): Promise<FileHandle> =>
  open(`${below(folder)}/${name}`, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

/** The path of an open folder. */
export const below = ({ fd }: FileHandle): string => `/proc/self/fd/${fd}`

/** True for a system error with this code. */
export const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code
