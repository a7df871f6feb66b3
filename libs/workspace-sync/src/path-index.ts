/** Detects collisions of paths: names of the same file on some file system, and a file that is a folder. */
import { BOUNDS, pathSchema } from '@cofferdam/contract'
import { foldPath } from './fold-names.ts'

/** True for a path inside the workspace that every supported file system can store. */
export function isCarriable(path: string): boolean {
  // On Windows a colon is a drive letter or a stream, and a backslash a separator. Control characters could
  // reach a terminal.
  return (
    pathSchema.safeParse(path).success &&
    path.isWellFormed() &&
    // eslint-disable-next-line no-control-regex
    !/[\u0000-\u001f\u007f:\\]/.test(path) &&
    // A part that folds to nothing or to dots is another name on some file system.
    foldPath(path)
      .split('/')
      .every((part) => part !== '')
  )
}

/** True for a path in more folders than rules and archives are matched and read to. */
export function isTooDeep(path: string): boolean {
  return path.split('/').length - 1 > BOUNDS.workspaceFolders
}

export interface PathIndex {
  /** The path that collides with `path`. Null when there is none. A path does not collide with itself. */
  clash(path: string): string | null
  add(path: string): void
  delete(path: string): void
}

/** Stores the folded paths and the folders that they need. */
export function createPathIndex(paths: Iterable<string> = []): PathIndex {
  const byFold = new Map<string, string>()
  /** Folded folder → its spelling and the number of its files. */
  const folders = new Map<string, Map<string, number>>()

  const eachFolder = (path: string, visit: (folded: string, spelled: string) => void): void => {
    const parts = path.split('/')
    for (let length = 1; length < parts.length; length += 1) {
      const spelled = parts.slice(0, length).join('/')
      visit(foldPath(spelled), spelled)
    }
  }
  const index: PathIndex = {
    clash(path) {
      const folded = foldPath(path)
      const same = byFold.get(folded)
      if (same !== undefined && same !== path) return same
      const below = folders.get(folded)?.keys().next().value
      if (below !== undefined) return below
      let found: string | null = null
      eachFolder(path, (folder, spelled) => {
        const file = byFold.get(folder)
        const other = [...(folders.get(folder)?.keys() ?? [])].find((spelling) => spelling !== spelled)
        found ??= file ?? other ?? null
      })
      return found
    },
    add(path) {
      byFold.set(foldPath(path), path)
      eachFolder(path, (folder, spelled) => {
        const spellings = folders.get(folder) ?? new Map<string, number>()
        folders.set(folder, spellings.set(spelled, (spellings.get(spelled) ?? 0) + 1))
      })
    },
    delete(path) {
      if (byFold.get(foldPath(path)) !== path) return
      byFold.delete(foldPath(path))
      eachFolder(path, (folder, spelled) => {
        const spellings = folders.get(folder)
        const left = (spellings?.get(spelled) ?? 0) - 1
        if (left > 0) spellings?.set(spelled, left)
        else spellings?.delete(spelled)
        if (spellings?.size === 0) folders.delete(folder)
      })
    },
  }
  for (const path of paths) index.add(path)
  return index
}
