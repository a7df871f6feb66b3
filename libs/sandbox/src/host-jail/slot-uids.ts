/**
 * Gives every sandbox its own uid if the worker is root. So sandboxes share no limit that the kernel counts
 * per user (inotify instances, timers, pending signals, RLIMIT_NPROC, pipe and socket buffers), and cannot
 * signal each other.
 *
 * Used uids are links in one folder, `<uid>` → slot id, shared by all workers of the runtime folder: creating
 * a link is atomic. A dead worker's link stays, so that nobody gets its uid before its processes are proven
 * gone. A worker removes the slot's folder first and then the link. If it dies in between, `sweep` removes
 * the link.
 */
import { mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, unlinkSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { CofferdamError, idTimeMs, type SandboxId } from '@cofferdam/contract'
import { processesOf } from './process-identity.ts'
import { isSlotId, ORPHAN_MS } from './records.ts'
import type { DropTo } from './rung.ts'

export interface UidRange {
  first: number
  count: number
}

/**
 * In the block that systemd's table calls unused (1879048192–2147483647, systemd.io/UIDS-GIDS). No host hands
 * these out, and useradd's subordinate IDs, from 100000 upward, do not reach them.
 */
export const DEFAULT_UIDS: UidRange = { first: 1_900_000_000, count: 65_536 }

export interface SlotUids {
  readonly range: UidRange
  /** Takes a uid and the gid of the same number. Throws `sandbox_open_failed` if none is free. */
  take(slotId: string): DropTo
  /** The uid of a slot of any worker. */
  of(slotId: string): number | null
  /** Frees `uid`, or with null the slot's uid. The slot's processes must be gone. */
  release(slotId: string, uid: number | null): void
  /**
   * Frees the uids of abandoned slots: older than ten minutes, without a folder in any backend, without a
   * living process. Returns their number.
   */
  sweep(nowMs: number): Promise<number>
}

/**
 * Uids with links in `<runtimeDir>/uids`, which is created here. Slots have folders
 * `<runtimeDir>/sandboxes/<backend>/<owner>/<slot id>`.
 */
export function createSlotUids(runtimeDir: string, range: UidRange): SlotUids {
  const folder = join(runtimeDir, 'uids')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  // Gives out uids in turn, so that a freed uid is not reused soon. Starts at a random one, so that workers
  // with different runtime folders rarely use the same uid.
  let next = Math.floor(Math.random() * range.count)
  function of(slotId: string): number | null {
    for (const name of readdirSync(folder)) if (holderOf(join(folder, name)) === slotId) return Number(name)
    return null
  }

  return {
    range,
    of,
    take(slotId) {
      for (let tried = 0; tried < range.count; tried++) {
        const uid = range.first + next
        next = (next + 1) % range.count
        try {
          symlinkSync(slotId, join(folder, String(uid)))
          return { uid, gid: uid }
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
        }
      }
      throw new CofferdamError('sandbox_open_failed', `all ${range.count} uids of uid_range are in use`)
    },
    release(slotId, uid) {
      const taken = uid ?? of(slotId)
      const path = join(folder, String(taken))
      if (taken !== null && holderOf(path) === slotId) unlinkSync(path)
    },
    async sweep(nowMs) {
      const known = await slotsIn(join(runtimeDir, 'sandboxes'))
      let swept = 0
      for (const name of await readdir(folder)) {
        const holder = holderOf(join(folder, name))
        const isOrphan = isSlotId(holder) && nowMs - idTimeMs(holder) > ORPHAN_MS && !known.has(holder)
        if (!isOrphan || processesOf(Number(name)).length > 0) continue
        // Another sweeping worker may have been faster.
        rmSync(join(folder, name), { force: true })
        swept += 1
      }
      return swept
    },
  }
}

/** Every slot with a folder, of any backend and owner. */
async function slotsIn(root: string): Promise<Set<SandboxId>> {
  const names = (path: string): Promise<string[]> => readdir(path).catch(() => [])
  const slots = new Set<SandboxId>()
  for (const backend of await names(root))
    for (const owner of await names(join(root, backend)))
      for (const name of await names(join(root, backend, owner))) if (isSlotId(name)) slots.add(name)
  return slots
}

function holderOf(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch {
    // The link is gone, because its uid was released meanwhile.
    return null
  }
}

/** Why this process cannot use the range; null if it can. */
export function refusedUids({ first, count }: UidRange): string | null {
  const last = first + count - 1
  // In a user namespace (a rootless container) only mapped IDs exist.
  const mapped = lines('/proc/self/uid_map').some((line) => {
    const [inside = 0, , size = 0] = line.trim().split(/\s+/).map(Number)
    return inside <= first && last < inside + size
  })
  if (!mapped) return `the uids ${first}–${last} do not exist in this user namespace`
  for (const path of ['/etc/passwd', '/etc/group'])
    for (const line of lines(path)) {
      const [name = '', , id = ''] = line.split(':')
      if (id !== '' && Number(id) >= first && Number(id) <= last) return `${path} gives ${id} to ${name}`
    }
  for (const path of ['/etc/subuid', '/etc/subgid'])
    for (const line of lines(path)) {
      const [name = '', from = '', size = ''] = line.split(':')
      if (Number(from) <= last && Number(from) + Number(size) > first)
        return `${path} gives ${from}–${Number(from) + Number(size) - 1} to ${name}`
    }
  return null
}

function lines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
  } catch {
    return []
  }
}
