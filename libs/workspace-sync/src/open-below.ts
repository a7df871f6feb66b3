/**
 * Steps into folders by the handle of the one before and never through a link, so that a link that stands there, or is put there
 * meanwhile, leads nowhere. Node has no openat: /proc/self/fd stands in for it, which is why this is for Linux alone.
 */
import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { CofferdamError } from '@cofferdam/contract'

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants

/** The folder that all paths begin in; it may itself be reached by a link. Throws `capability_missing` elsewhere than on Linux. */
export const openRoot = (root: string): Promise<FileHandle> => {
  if (process.platform !== 'linux')
    throw new CofferdamError(
      'capability_missing',
      'Workspaces in directories are for Linux: they need /proc/self/fd.',
    )
  return open(root, O_RDONLY | O_DIRECTORY)
}

/** A folder in `folder`; throws ELOOP or ENOTDIR for a link or a file of the name. */
export const openFolder = (folder: FileHandle, name: string): Promise<FileHandle> =>
  open(`${below(folder)}/${name}`, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

/** How the folder of a handle is named in a path. */
export const below = ({ fd }: FileHandle): string => `/proc/self/fd/${fd}`

/** True for an error of the system by this name. */
export const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code
