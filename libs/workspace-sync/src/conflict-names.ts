/** Names for the sandbox's version of a file that both sides changed. */
import type { FileFacts, Manifest } from '@cofferdam/contract'
import { sameFacts } from './manifest.ts'
import { isCarriable, type PathIndex } from './path-index.ts'

/** Most names that one execution may create for one path. Several only if the host changes during merges. */
const MAX_VERSIONS = 16

/**
 * `<name>.conflict-<job>`, with a number from the second on. Returns an existing name with the same bytes.
 * Null when no name is free.
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
    // A sandbox file of that name would later overwrite it in this merge, and a deleted one would delete it.
    const others = [files.get(name), sandbox.get(name)]
    if (!base.has(name) && others.every((there) => there === undefined || sameFacts(there, facts)))
      return name
  }
  return null
}

/** Appends the mark to the last part, or to the part that collides. Null when every name is too long. */
function conflictName(path: string, mark: string, index: PathIndex): string | null {
  const parts = path.split('/')
  for (let at = parts.length - 1; at >= 0; at -= 1) {
    const name = parts.map((part, index) => (index === at ? part + mark : part)).join('/')
    if (isCarriable(name) && !index.clashes(name)) return name
  }
  return null
}
