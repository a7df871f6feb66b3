/** A small disk for a directory: a tmpfs that a test can fill and free. Needs root. */
import { execFile } from 'node:child_process'
import { open, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface SmallDisk extends AsyncDisposable {
  fill(): Promise<void>
  free(): Promise<void>
}

/**
 * Moves the content of the directory to a new disk and mounts the disk there. Nobody may use the directory
 * meanwhile. Disposing unmounts the disk.
 */
export async function moveToSmallDisk(directory: string, mib: number): Promise<SmallDisk> {
  const before = `${directory}.before`
  const filler = path.join(directory, 'filler')
  const { uid, gid } = await stat(directory)
  await rename(directory, before)
  await run('mkdir', [directory])
  const options = `size=${mib}m,mode=0700,uid=${uid},gid=${gid}`
  await run('mount', ['-t', 'tmpfs', '-o', options, 'cofferdam-test', directory])
  const disk: SmallDisk = {
    async fill() {
      await using file = await open(filler, 'a')
      // The second size fills the last pages too.
      for (const bytes of [1_048_576, 4096]) await writeUntilFull(file, Buffer.alloc(bytes))
    },
    free: () => rm(filler),
    async [Symbol.asyncDispose]() {
      // Unmount lazily, because the server of a failed test may still run.
      await run('umount', ['-l', directory])
    },
  }
  await using owned = new AsyncDisposableStack()
  owned.use(disk)
  await run('cp', ['-a', `${before}/.`, directory])
  await rm(before, { recursive: true })
  owned.move()
  return disk
}

async function writeUntilFull(file: Awaited<ReturnType<typeof open>>, chunk: Buffer): Promise<void> {
  try {
    for (;;) await file.write(chunk)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
  }
}
