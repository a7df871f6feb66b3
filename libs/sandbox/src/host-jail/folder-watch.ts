/**
 * Watches the folder of a sandbox that writes to the host's disk, where nothing limits its size, and kills
 * the sandbox's programs when it holds too much. A program can pass the limit for one interval, so `disk` is
 * not declared as enforced.
 */
import type { Dirent } from 'node:fs'
import { lstat, opendir } from 'node:fs/promises'
import { inodesOf } from '../disk-inodes.ts'
import { descendants, signal } from './process-identity.ts'

/**
 * A look at 10,000 files takes about 100 ms, little of it CPU. A program that writes 1 GB/s passes the limit
 * by 250 MB between two looks.
 */
const INTERVAL_MS = 250
const MiB = 1024 * 1024

export interface FolderWatch {
  readonly kills: number
  stop(): void
}

/**
 * Until `stop()`, watches the bytes in `folder` and its number of files, folders and links. If a disk of
 * `diskMib` could not hold them, kills the descendants of `agent`, but not the agent.
 */
export function watchFolder(folder: string, diskMib: number, agent: number): FolderWatch {
  let kills = 0
  let isStopped = false
  let timer: NodeJS.Timeout | undefined

  async function look(): Promise<void> {
    const isFull = await holdsMore(Buffer.from(folder), diskMib)
    // A kill does not free files, so all processes of the program are killed until none writes more.
    for (const pid of isFull && !isStopped ? descendants(agent) : []) {
      kills++
      signal(pid)
    }
  }
  // The next look begins only after the last one has ended, so that a slow disk never causes two at once.
  function wait(): void {
    timer = setTimeout(
      () =>
        void look()
          .catch(() => {})
          .then(() => {
            if (!isStopped) wait()
          }),
      INTERVAL_MS,
    )
    timer.unref()
  }
  wait()

  return {
    get kills() {
      return kills
    },
    stop() {
      isStopped = true
      clearTimeout(timer)
    },
  }
}

/**
 * Counts blocks, not sizes, because holes take no disk. Follows no links. A path that is too long to look at
 * counts as too much, because only a hostile program nests that deep. Files that vanish meanwhile count as
 * nothing.
 */
async function holdsMore(root: Buffer, diskMib: number): Promise<boolean> {
  let bytes = 0
  let files = 0
  const waiting = [root]
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    try {
      for await (const entry of await entriesOf(folder)) {
        const path = Buffer.concat([folder, Buffer.from('/'), entry.name])
        const found = await lstat(path)
        bytes += found.blocks * 512
        files += 1
        if (bytes > diskMib * MiB || files > inodesOf(diskMib)) return true
        if (found.isDirectory()) waiting.push(path)
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENAMETOOLONG') return true
    }
  }
  return false
}

// `encoding: 'buffer'` makes opendir return names as bytes, but its types do not know this value.
const entriesOf = async (path: Buffer): Promise<AsyncIterable<Dirent<Buffer>>> =>
  (await opendir(path, { encoding: 'buffer' as BufferEncoding })) as unknown as AsyncIterable<Dirent<Buffer>>
