/** Paths of a sandbox: relative ones start in its work folder, and absolute ones are used as they are. */
import { CofferdamError } from '@cofferdam/client'

export interface SandboxPath {
  /** The absolute path, without `.` and `..`. */
  absolute: string
  /** Relative to the work folder: '' for the folder itself. Null for a path outside of it. */
  inside: string | null
}

/** Throws `invalid_request` for an empty path or one with a NUL. */
export function locate(root: string, path: string): SandboxPath {
  if (path === '' || path.includes('\0'))
    throw new CofferdamError('invalid_request', 'A path must have a character, and none of them NUL.')
  const parts: string[] = []
  for (const part of `${path.startsWith('/') ? '' : root}/${path}`.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  const absolute = `/${parts.join('/')}`
  if (absolute === root) return { absolute, inside: '' }
  return { absolute, inside: absolute.startsWith(`${root}/`) ? absolute.slice(root.length + 1) : null }
}

/** Like `locate`, for a path that is to be changed. Throws `invalid_request` outside of the work folder. */
export function locateInside(root: string, path: string): SandboxPath & { inside: string } {
  const { absolute, inside } = locate(root, path)
  if (inside !== null) return { absolute, inside }
  throw new CofferdamError(
    'invalid_request',
    `${path} is not in the work folder ${root}, and nothing outside of it lasts. Use a path below ${root}.`,
  )
}
