/**
 * Tells whether this worker still owns an execution.
 *
 *   owned ──finish──→ finishing ──answered──→ over
 *     │                   └──Redis away──→ owned       (the caller may try again)
 *     └──lose, or finish was fenced off──→ over, and the signal aborts with `lock_lost`
 */
import { CofferdamError, isCofferdamError, StopReason } from '@cofferdam/contract'
import { fenced } from './fenced-write.ts'

export interface Ownership {
  /** Aborts with the first StopReason. */
  readonly signal: AbortSignal
  /** True once this worker has settled the execution, put it back, or was fenced off. */
  readonly over: boolean
  /** The last write is in flight. Only its answer tells whether this worker still owned the execution. */
  readonly finishing: boolean
  /** Asks `process` to stop. This worker still owns the execution. */
  stop(reason: StopReason): void
  /** Notes that another worker owns the execution. */
  lose(why: string): void
  /**
   * After `flush`, ends the execution by `write`, and retries while Redis is away. `write` is an idempotent
   * script that answers `ok`, `fenced`, `began` or `nobody`. After `nobody`, nothing was written and this
   * worker still owns the execution.
   * Throws CofferdamError fenced | conflict | queue_unavailable.
   */
  finish(flush: () => Promise<void>, write: () => Promise<{ code: string }>): Promise<void>
}

/** Creates the state of an execution that was just taken. */
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
