/**
 * Detects paths that collide on some file system: two names of the same file, or a file that would also be a
 * folder.
 */
import { BOUNDS, pathSchema } from '@cofferdam/contract'
import { foldPart, foldPath } from './fold-names.ts'

/** True for a path inside the workspace that every supported file system can store. */
export function isCarriable(path: string): boolean {
  // On Windows a colon is a drive letter or a stream, and a backslash a separator. Control characters could
  // reach a terminal.
  return (
    pathSchema.safeParse(path).success &&
    path.isWellFormed() &&
    // eslint-disable-next-line no-control-regex
    !/[\u0000-\u001f\u007f:\\]/.test(path) &&
    // On some file systems, a part that folds to nothing (only dots, spaces or ignored characters) means
    // another file.
    foldPath(path)
      .split('/')
      .every((part) => part !== '')
  )
}

/** True for a path that lies in more folders than rules and archives support. */
export function isTooDeep(path: string): boolean {
  return path.split('/').length - 1 > BOUNDS.workspaceFolders
}

export interface PathIndex {
  /**
   * Whether some file system would mix up this path and an indexed one: the same file, a file that is also a
   * folder, or two spellings of a folder.
   */
  clashes(path: string): boolean
  add(path: string): void
  delete(path: string): void
}

/**
 * All paths with the same folded name: at most one file, and the folders by spelling, each with its number of
 * files.
 */
interface Place {
  file: string | null
  folders: Map<string, number>
  below: Map<string, Place>
}

const newPlace = (): Place => ({ file: null, folders: new Map(), below: new Map() })

/** A place on the way to a path, and the part of the path that leads there. */
interface Step {
  place: Place
  part: string
  isLast: boolean
}

/** A tree of folded names. Each call folds each part of a path once, whatever its depth. */
export function createPathIndex(paths: Iterable<string> = []): PathIndex {
  const root = newPlace()

  /**
   * Yields the place of each part of the path. With `make`, it creates missing places. Otherwise it ends at
   * the first one.
   */
  function* placesOf(path: string, make: boolean): Generator<Step> {
    let place = root
    const parts = path.split('/')
    for (const [at, part] of parts.entries()) {
      // Folding turns some characters into slashes. These slashes also separate names.
      for (const name of foldPart(part).split('/')) {
        const next = place.below.get(name) ?? (make ? newPlace() : undefined)
        if (next === undefined) return
        if (make) place.below.set(name, next)
        place = next
      }
      yield { place, part, isLast: at === parts.length - 1 }
    }
  }
  const index: PathIndex = {
    clashes(path) {
      for (const { place, part, isLast } of placesOf(path, false)) {
        if (isLast) return (place.file !== null && place.file !== path) || place.folders.size > 0
        if (place.file !== null) return true
        for (const spelling of place.folders.keys()) if (spelling !== part) return true
      }
      return false
    },
    add(path) {
      for (const { place, part, isLast } of placesOf(path, true))
        if (isLast) place.file = path
        else place.folders.set(part, (place.folders.get(part) ?? 0) + 1)
    },
    delete(path) {
      const places = [...placesOf(path, false)]
      const last = places.at(-1)
      if (last?.isLast !== true || last.place.file !== path) return
      last.place.file = null
      for (const { place, part } of places.slice(0, -1)) {
        const left = (place.folders.get(part) ?? 0) - 1
        if (left > 0) place.folders.set(part, left)
        else place.folders.delete(part)
      }
    },
  }
  for (const path of paths) index.add(path)
  return index
}
