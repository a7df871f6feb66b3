/** Reads a folder of this host as files of an execution. */
import { lstat, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BOUNDS, pathSchema, type FileIn } from '@cofferdam/contract'

/** How many files and bytes a request can still carry. */
export interface Room {
  files: number
  bytes: number
}
export const wholeRoom = (): Room => ({ files: BOUNDS.fileCount, bytes: BOUNDS.filesTotalBytes })

/**
 * Reads the regular files below `folder`, sorted by name, with paths below `prefix`. Each file takes its part
 * of `room`. `omitted` counts files without room, links, and names that no request can have. A missing folder
 * counts as empty.
 */
export async function readFolder(
  folder: string,
  prefix: string,
  room: Room,
): Promise<{ files: FileIn[]; omitted: number }> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  const files: FileIn[] = []
  let omitted = 0
  const paths = entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted()
  for (const from of paths) {
    const path = pathSchema.safeParse(`${prefix}/${from.slice(folder.length + 1)}`)
    const { size, mode, isFile } = await statOf(from)
    if (!path.success || !isFile || size > BOUNDS.fileBytes || size > room.bytes || room.files < 1) {
      omitted += 1
      continue
    }
    room.bytes -= size
    room.files -= 1
    files.push({
      path: path.data,
      content_base64: (await readFile(from)).toString('base64'),
      ...((mode & 0o100) === 0 ? {} : { executable: true }),
    })
  }
  return { files, omitted }
}

async function statOf(path: string): Promise<{ size: number; mode: number; isFile: boolean }> {
  const stat = await lstat(path)
  return { size: stat.size, mode: stat.mode, isFile: stat.isFile() }
}
