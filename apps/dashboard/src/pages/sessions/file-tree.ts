/** Makes folders out of the paths of files. */

export interface FileLeaf {
  name: string
  path: string
  size: number
}

export interface Folder {
  name: string
  folders: readonly Folder[]
  files: readonly FileLeaf[]
}

interface Growing {
  name: string
  folders: Map<string, Growing>
  files: FileLeaf[]
}

/** How deep folders are nested. The name of a deeper file contains the rest of its path. */
const MOST_DEPTH = 8

const byName = (one: { name: string }, other: { name: string }): number => one.name.localeCompare(other.name)

const finish = (folder: Growing): Folder => ({
  name: folder.name,
  folders: [...folder.folders.values()].map(finish).toSorted(byName),
  files: folder.files.toSorted(byName),
})

/** The root folder of the files. Folders and files are in order of their names. */
export function fileTree(files: readonly { path: string; size: number }[]): Folder {
  const root: Growing = { name: '', folders: new Map(), files: [] }
  for (const { path, size } of files) {
    const parts = path.split('/')
    const depth = Math.min(parts.length - 1, MOST_DEPTH)
    const name = parts.slice(depth).join('/')
    let folder = root
    for (const part of parts.slice(0, depth)) {
      const next = folder.folders.get(part) ?? { name: part, folders: new Map(), files: [] }
      folder.folders.set(part, next)
      folder = next
    }
    folder.files.push({ name, path, size })
  }
  return finish(root)
}
