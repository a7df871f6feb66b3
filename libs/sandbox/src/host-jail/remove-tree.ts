/**
 * Removes a program's tree of any shape. No system call accepts a path beyond PATH_MAX, so each directory is
 * moved up to the root before it is emptied: no path has more than two names below the root. Names are bytes,
 * because they need not be text. Nothing may run in the tree. Links are removed, not followed.
 */
import type { Dirent } from 'node:fs'
import { chmod, lstat, opendir, rename, rmdir, unlink } from 'node:fs/promises'

const join = (folder: Buffer, name: Buffer): Buffer => Buffer.concat([folder, Buffer.from('/'), name])

/** Resolves when nothing of `root` is left, even if there was nothing. */
export async function removeTree(path: string): Promise<void> {
  const root = Buffer.from(path)
  const found = await lstat(root).catch(missing)
  if (found === null) return
  if (!found.isDirectory()) return unlink(root)
  let moved = 0
  for (let isEmpty = false; !isEmpty;) {
    isEmpty = true
    for await (const entry of await opened(root)) {
      isEmpty = false
      const path = join(root, entry.name)
      if (!entry.isDirectory()) {
        await unlink(path)
        continue
      }
      for await (const below of await opened(path)) {
        const deeper = join(path, below.name)
        if (!below.isDirectory()) {
          await unlink(deeper)
          continue
        }
        // To move a directory, the kernel changes its `..` entry, so the directory itself must be writable.
        // `freeName` returns a name that does not exist.
        await chmod(deeper, 0o700)
        await rename(deeper, await freeName(root, () => moved++))
      }
      // A listing may miss what moved meanwhile; then another round follows.
      await rmdir(path).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOTEMPTY') throw error
      })
    }
  }
  await rmdir(root)
}

/** The program may have removed its own right to list the folder. */
async function opened(path: Buffer): Promise<AsyncIterable<Dirent<Buffer>>> {
  await chmod(path, 0o700)
  // `encoding: 'buffer'` makes opendir return names as bytes, but its types do not know this value.
  return (await opendir(path, { encoding: 'buffer' as BufferEncoding })) as unknown as AsyncIterable<
    Dirent<Buffer>
  >
}

async function freeName(root: Buffer, next: () => number): Promise<Buffer> {
  for (;;) {
    const path = join(root, Buffer.from(`.removed-${next()}`))
    if ((await lstat(path).catch(missing)) === null) return path
  }
}

function missing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null
  throw error
}
