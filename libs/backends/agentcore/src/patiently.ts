/** Retries calls that the service throttles, and questions whose answer was lost. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isLostAnswer, isThrottled } from './classify-failure.ts'

/**
 * Attempts of a throttled call, with pauses: about 1.5 s before user code has begun, since another backend
 * may serve then, and about 6 s afterwards.
 */
export const THROTTLED_MAX = { before: 4, after: 8 }
const PAUSE_MS = { first: 200, longest: 1000 }
/** Attempts of a question before its answer counts as lost, and the pause between them. */
const QUESTIONS_MAX = 3
const QUESTION_PAUSE_MS = 500

/** Retries while the call is throttled or `isForNow` says so, up to the given number of attempts. */
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

/** Retries after a lost answer. Only for calls that may be carried out twice. */
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

export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {
    signal.throwIfAborted()
  })
}
