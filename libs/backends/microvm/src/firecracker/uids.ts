/**
 * Gives each machine its own user. All workers of the host share one folder of links `<uid>` → id of the
 * jail, and creating a link is atomic. A dead worker’s link stays until its machine is proven gone.
 */
import { mkdir, readdir, readlink, symlink, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { CofferdamError } from '@cofferdam/contract'

export interface JailUids {
  /** Throws `sandbox_open_failed` if none is free. */
  take(id: string): Promise<number>
  /** Frees the user of a jail, whose machine must be proven gone. True if it had one. */
  release(id: string): Promise<boolean>
}

export function createJailUids(folder: string, range: { first: number; count: number }): JailUids {
  // Uids are taken in turn, so that each rests before it is used again. The start is random, so that workers
  // rarely try the same uid.
  let next = Math.floor(Math.random() * range.count)
  return {
    async take(id) {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      for (let tried = 0; tried < range.count; tried++) {
        const uid = range.first + next
        next = (next + 1) % range.count
        try {
          await symlink(id, join(folder, String(uid)))
          return uid
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
        }
      }
      throw new CofferdamError(
        'sandbox_open_failed',
        `microvm: all ${range.count} users of machines are in use.`,
      )
    },
    async release(id) {
      let had = false
      for (const name of await readdir(folder).catch(() => [])) {
        const path = join(folder, name)
        if ((await readlink(path).catch(() => null)) !== id) continue
        await unlink(path).catch(() => {})
        had = true
      }
      return had
    },
  }
}
