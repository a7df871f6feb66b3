/**
 * Remembers backends whose vendor reports that it is full. If all suitable backends are full, the worker
 * requeues the execution. One attempt at a time asks the vendor again. All others get the last answer. If
 * nothing was opened for FULL_MAX_MS, the attempts end.
 *
 *   unknown ──no room──▶ resting ──a pause──▶ asked by one ──no room──▶ resting, for twice as long
 *      ▲                                         ├── given up, or another answer ──▶ asked by the next one
 *      └─────────────────── opened ──────────────┘
 */
import type { Clock } from './clock.ts'

/** Longer than most programs run, and short enough that callers do not wait for a day in vain. */
export const FULL_MAX_MS = 3_600_000
/** A vendor has capacity again when a program ends, which takes seconds. */
const FIRST_PAUSE_MS = 1000
const LAST_PAUSE_MS = 15_000
/** If nobody has asked for this long, nobody was waiting. The vendor's next answer starts a new wait. */
const FORGOTTEN_MS = 600_000

export interface NoRoom {
  said: string
  /** It has been full for so long that waiting makes no sense. */
  forTooLong: boolean
}

export interface FullBackends {
  /**
   * The vendor's last answer. Null if the attempt may ask now. It must then report `foundFull`, `opened` or
   * `abandoned`.
   */
  refuses(backend: string): NoRoom | null
  foundFull(backend: string, said: string): NoRoom
  opened(backend: string): void
  /**
   * A session got its sandbox. This does not prove free capacity, but it shows that executions on this
   * backend end, so the time to wait starts anew.
   */
  moves(backend: string): void
  /** The attempt was cancelled, or the answer was not about capacity. */
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
      // Several attempts may have asked before the first answer. They count as one.
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
