/**
 * Backends whose vendor says that it has no room: an execution waits for it as it waits for a free lease, for it says nothing against the
 * program or the backend. One attempt asks, the others are answered what it heard, so that a vendor that stays full costs
 * neither it calls nor us slots. Where nothing was opened for FULL_MAX_MS, it is no queue that moves, and the attempts end.
 *
 *   unknown ──no room──▶ resting ──a pause──▶ asked by one ──no room──▶ resting, for twice as long
 *      ▲                                         ├── given up, or another answer ──▶ asked by the next one
 *      └─────────────────── opened ──────────────┘
 */
import type { Clock } from './clock.ts'

/** Longer than most programs run; shorter than what nobody would notice. */
export const FULL_MAX_MS = 3_600_000
/** Room comes with the end of somebody's program. */
const FIRST_PAUSE_MS = 1000
const LAST_PAUSE_MS = 15_000
/** Where nobody has asked for so long, nobody waited: what it says then is news. */
const FORGOTTEN_MS = 600_000

/** What a backend without room said. */
export interface NoRoom {
  said: string
  /** There was none for so long that waiting makes no sense. */
  forTooLong: boolean
}

export interface FullBackends {
  /** What an attempt is answered without asking; null when it is to ask, and tell how that went by `foundFull`, `opened` or `abandoned`. */
  refuses(backend: string): NoRoom | null
  foundFull(backend: string, said: string): NoRoom
  opened(backend: string): void
  /** A session got its sandbox, which may have been there already: no room is seen by it, but that the queue moves. */
  moves(backend: string): void
  /** The question was given up, or the answer had nothing to do with room. */
  abandoned(backend: string): void
}

interface Full {
  sinceMs: number
  heardMs: number
  said: string
  pauseMs: number
  askAtMs: number
  isAsked: boolean
}

/** Creates the memory of one executor. */
export function createFullBackends(clock: Clock): FullBackends {
  // Bounded by the number of configured backends.
  const known = new Map<string, Full>()
  const noRoom = ({ said, sinceMs }: Full): NoRoom => ({
    said,
    forTooLong: clock.nowMs() - sinceMs >= FULL_MAX_MS,
  })
  return {
    refuses(backend) {
      const full = known.get(backend)
      if (full === undefined) return null
      if (full.isAsked || clock.nowMs() < full.askAtMs) return noRoom(full)
      full.isAsked = true
      return null
    },
    foundFull(backend, said) {
      const nowMs = clock.nowMs()
      let full = known.get(backend)
      if (full === undefined || nowMs - full.heardMs > FORGOTTEN_MS)
        full = {
          sinceMs: nowMs,
          heardMs: nowMs,
          said,
          pauseMs: FIRST_PAUSE_MS / 2,
          askAtMs: 0,
          isAsked: true,
        }
      full.heardMs = nowMs
      full.said = said
      // Those that asked together hear it together: that is one answer.
      if (full.isAsked) {
        full.pauseMs = Math.min(2 * full.pauseMs, LAST_PAUSE_MS)
        full.askAtMs = nowMs + full.pauseMs
        full.isAsked = false
      }
      known.set(backend, full)
      return noRoom(full)
    },
    opened: (backend) => void known.delete(backend),
    moves(backend) {
      const full = known.get(backend)
      if (full !== undefined) full.sinceMs = clock.nowMs()
    },
    abandoned(backend) {
      const full = known.get(backend)
      if (full !== undefined) full.isAsked = false
    },
  }
}
