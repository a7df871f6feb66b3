/** Calls that are made again: those that the service refuses for the rate, and questions whose answer was lost. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isLostAnswer, isThrottled } from './classify-failure.ts'

/**
 * A call that was refused for the rate is made so often, with pauses between: some 1.5 s before anything of a user has begun, for
 * then another backend may serve; some 6 s afterwards, for then there is none.
 */
export const THROTTLED_MAX = { before: 4, after: 8 }
const PAUSE_MS = { first: 200, longest: 1000 }
/** A question is asked so often, with so much between, before no answer is the answer. */
const QUESTIONS_MAX = 3
const QUESTION_PAUSE_MS = 500

/** Again while it is refused for the rate, or for what `isForNow` says, up to so many times in all. */
export async function patiently<T>(
  work: () => Promise<T>,
  signal: AbortSignal,
  most: number,
  isForNow: (error: unknown) => boolean = isThrottled,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      if (!isForNow(error) || attempt === most) throw error
      const pauseMs = Math.min(PAUSE_MS.first * 2 ** (attempt - 1), PAUSE_MS.longest)
      await pause(pauseMs * (0.5 + Math.random()), signal)
    }
  }
}

/** Again after an answer that was lost: for what does the same when it is done twice. */
export async function despiteLosses<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      if (!isLostAnswer(error) || attempt === QUESTIONS_MAX) throw error
      await pause(QUESTION_PAUSE_MS, signal)
    }
  }
}

/** Rejects with the signal's reason. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {
    signal.throwIfAborted()
  })
}
