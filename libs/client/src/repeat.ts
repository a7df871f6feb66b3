/**
 * Repeats calls after temporary failures. The API says in `retry` of its error which failures are temporary.
 * A lost answer counts as `later`.
 */
import { CofferdamError, type ErrorCode } from '@cofferdam/contract/error-table'
import { open, type Answer, type HttpCall, type HttpTarget } from './http-call.ts'
import { pause } from './pause.ts'

/**
 * Which calls may be repeated. `always`: doing it twice is the same as once. `if_refused`: only when the API
 * answered that it did not begin, because a lost answer may mean that it was done.
 */
export type Repeat = 'always' | 'if_refused'

/** Pause before a repetition. It doubles from the first to the last value. */
const PAUSE_MS = { first: 100, last: 2000 }
/** Tries before it gives up, however long they took: a laptop that slept may have used up `retryForMs`. */
const LEAST_TRIES = 5
/** For a longer `Retry-After` the caller decides. */
const LONGEST_RETRY_AFTER_S = 30

/** With these errors the API refused a request before it began to work on it. */
const REFUSED: readonly ErrorCode[] = ['busy', 'rate_limited', 'shutting_down']

/** Sends a call and reads its answer with `read`. Repeats both after a temporary failure of either. */
export async function ask<T>(
  target: HttpTarget,
  call: HttpCall,
  read: (answer: Answer) => T | Promise<T>,
  repeat: Repeat = 'always',
): Promise<T> {
  const patience = createPatience(target.retryForMs)
  for (;;) {
    try {
      const answer = await open(target, call)
      try {
        return await read(answer)
      } finally {
        answer.end()
      }
    } catch (error) {
      if (!mayRepeat(error, repeat)) throw error
      const ms = patience.next(error)
      if (ms === null) throw error
      await pause(ms, call.signal, target.closed)
    }
  }
}

/**
 * True when the same call may work in a moment. False for a full queue, because the caller decides whether to
 * wait, and false when the client itself was closed.
 */
export function isTransient(error: unknown): error is CofferdamError {
  if (!(error instanceof CofferdamError) || error.retry !== 'later') return false
  if (error.code === 'wait_timeout' || error.code === 'queue_full') return false
  return error.code !== 'shutting_down' || error.details['status'] !== undefined
}

const mayRepeat = (error: unknown, repeat: Repeat): boolean =>
  isTransient(error) &&
  (repeat === 'always' || (REFUSED.includes(error.code) && error.details['status'] !== undefined))

export interface Patience {
  /** The pause before the next try, in milliseconds. Null when it is time to give up. */
  next(error: unknown): number | null
  /** Forgets the failures so far. To be called after a success. */
  reset(): void
}

/** Gives up after `retryForMs` without a success, but not before some tries. */
export function createPatience(retryForMs: number): Patience {
  let failures = 0
  let sinceMs = 0
  return {
    next(error) {
      if (failures === 0) sinceMs = performance.now()
      failures += 1
      if (failures >= LEAST_TRIES && performance.now() - sinceMs >= retryForMs) return null
      const askedS = error instanceof CofferdamError ? Number(error.details['retry_after_s'] ?? 0) : 0
      if (askedS > LONGEST_RETRY_AFTER_S) return null
      return Math.max(askedS * 1000, Math.min(PAUSE_MS.last, PAUSE_MS.first * 2 ** (failures - 1)))
    },
    reset() {
      failures = 0
    },
  }
}
