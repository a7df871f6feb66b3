/** The name under which a conflicting version stands beside the host's. */
import type { FileFacts, Manifest } from '@cofferdam/contract'
import { sameFacts } from './manifest.ts'
import { isCarriable, type PathIndex } from './path-index.ts'

/** Names that one execution may leave for one path; it can only make more by merging while the host changes again. */
const MAX_VERSIONS = 16

/**
 * `<name>.conflict-<job>`, numbered from the second on; the name that holds these very bytes already, if there is one. Null where there is
 * none.
 */
export function freeName(
  path: string,
  job: string,
  facts: FileFacts,
  { base, files, sandbox, index }: Record<'base' | 'files' | 'sandbox', Manifest> & { index: PathIndex },
): string | null {
  for (let version = 1; version <= MAX_VERSIONS; version += 1) {
    const name = conflictName(path, version === 1 ? `.conflict-${job}` : `.conflict-${job}-${version}`, index)
    if (name === null) return null
    // A file of that name in the sandbox comes later in this merge, and would take the place; one that it was given and
    // has deleted would be deleted again by the same merge.
    const others = [files.get(name), sandbox.get(name)]
    if (!base.has(name) && others.every((there) => there === undefined || sameFacts(there, facts)))
      return name
  }
  return null
}

/** The mark goes to the last part, or to the part that collides. Null when no name is short enough. */
function conflictName(path: string, mark: string, index: PathIndex): string | null {
  const parts = path.split('/')
  for (let at = parts.length - 1; at >= 0; at -= 1) {
    const name = parts.map((part, place) => (place === at ? part + mark : part)).join('/')
    if (isCarriable(name) && index.clash(name) === null) return name
  }
  return null
}
