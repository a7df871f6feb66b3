/**
 * How often each call to the service is tried, and our own retries (others are the SDK's).
 * classify-failure.ts says which failures are throttled or lost. A program may be sent again, but the cell
 * begins it at most once.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isLostAnswer, isThrottled } from './classify-failure.ts'

export const ATTEMPTS = {
  /** A throttled call: about 1.5 s with its pauses, because another backend may serve instead. */
  throttledBeforeBegin: 4,
  /** The same after user code has begun: about 6 s. */
  throttledAfterBegin: 8,
  /** A request whose answer was lost, if it may be carried out twice. */
  lostAnswer: 3,
  /** Start, Stop and List, by the SDK itself. */
  lifecycle: 3,
  /** A Stop that meets another change of its session. */
  stop: 2,
  /** The first call of a session, over about 2.4 s: the service knows a session 1 to 2 s after "started". */
  firstCall: 5,
  /** Sessions for one open, when the first is not ready. */
  sessions: 2,
  /** How often a program is sent if the cell says that it has not begun. */
  program: 2,
  /** Each call of the control plane (provisioning), by the SDK itself. */
  controlPlane: 5,
} as const
const PAUSE_MS = { first: 200, longest: 1000 }
const LOST_PAUSE_MS = 500

/**
 * Retries while `isForNow` says that the failure is temporary, up to `most` attempts. By default only a
 * throttled call is temporary.
 */
export async function retryThrottled<T>(
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
export async function retryLost<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      if (!isLostAnswer(error) || attempt === ATTEMPTS.lostAnswer) throw error
      await pause(LOST_PAUSE_MS, signal)
    }
  }
}

export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {
    signal.throwIfAborted()
  })
}
