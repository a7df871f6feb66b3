/**
 * Whether an execution is still this worker's.
 *
 *   owned ──finish──→ finishing ──answered──→ over
 *     │                   └──Redis away──→ owned       (the caller may try again)
 *     └──lose, or finish was fenced off──→ over, and the signal aborts with `lock_lost`
 */
import { CofferdamError, isCofferdamError, StopReason } from '@cofferdam/contract'
import { fenced } from './fenced-write.ts'

/** Of one take. */
export interface Ownership {
  /** Aborts with the first StopReason. */
  readonly signal: AbortSignal
  /** Settled, put back, or fenced off. */
  readonly over: boolean
  /** Its last write is under way, and only that write's answer tells whether it was still ours. */
  readonly finishing: boolean
  /** Asks whoever runs it to stop; it stays ours. */
  stop(reason: StopReason): void
  /** Another worker has it. */
  lose(why: string): void
  /**
   * After `flush`, ends it by `write`, an idempotent script that answers `ok`, `fenced` or `began`; tried
   * again while Redis is away. With the answer `nobody` it stays ours.
   * Throws CofferdamError fenced | conflict | queue_unavailable.
   */
  finish(flush: () => Promise<void>, write: () => Promise<{ code: string }>): Promise<void>
}

/** Owned, from the take on. */
export function createOwnership(): Ownership {
  const abort = new AbortController()
  let over = false
  let finishing = false

  const stop = (reason: StopReason): void => {
    if (!abort.signal.aborted) abort.abort(reason)
  }
  const lose = (why: string): void => {
    over = true
    stop(new StopReason('lock_lost', why))
  }

  const last = async (write: () => Promise<{ code: string }>): Promise<void> => {
    if (over) throw new CofferdamError('fenced', 'This attempt was settled or put back already.')
    try {
      over = await fenced(write)
    } catch (error) {
      if (isCofferdamError(error) && error.code === 'fenced') lose('another worker owns this execution')
      throw error
    }
  }

  return {
    signal: abort.signal,
    get over() {
      return over
    },
    get finishing() {
      return finishing
    },
    stop,
    lose,
    async finish(flush, write) {
      finishing = true
      try {
        await flush()
        await last(write)
      } finally {
        finishing = false
      }
    },
  }
}
