/**
 * A uid of its own for every sandbox of a worker that is root. What the kernel counts per user (inotify instances, timers, pending
 * signals, RLIMIT_NPROC, pipe and socket buffers) and what one user may do to his other processes then ends at the sandbox.
 *
 * The uids in use are links in one folder, `<uid>` → slot id, shared by all workers of the runtime folder: making a link is
 * atomic, and a worker that dies leaves it, so that nobody gets a uid before its processes are proven gone.
 */
import { mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { CofferdamError } from '@cofferdam/contract'
import type { DropTo } from './rung.ts'

export interface UidRange {
  first: number
  count: number
}

/**
 * In the block that systemd's table of uids calls unused (1879048192–2147483647, systemd.io/UIDS-GIDS): no host hands these out, and
 * useradd's subordinate ids, which begin at 100000 and grow, do not reach them.
 */
export const DEFAULT_UIDS: UidRange = { first: 1_900_000_000, count: 65_536 }

export interface SlotUids {
  readonly range: UidRange
  /** Takes a uid (and the gid of the same number) for a slot. Throws `sandbox_open_failed` when all are taken. */
  take(slotId: string): DropTo
  /** The uid that a slot has; also of another worker's. */
  of(slotId: string): number | null
  /** Gives it back; only after nothing of the slot runs any more. Without a uid, whichever the slot has. */
  release(slotId: string, uid: number | null): void
}

/** Uids below `folder`, which is made here. */
export function createSlotUids(folder: string, range: UidRange): SlotUids {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  // In turn, so that a uid rests as long as possible; from anywhere, so that two runtime folders rarely meet.
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
  }
}

function holderOf(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch {
    // Released meanwhile.
    return null
  }
}

/** Why this process cannot use the range, in words; null when it can. */
export function refusedUids({ first, count }: UidRange): string | null {
  const last = first + count - 1
  // Inside a user namespace (a rootless container) only mapped ids exist.
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
