/** Pauses before a throttled call (429) is repeated. */
import { retryAfterMs } from '@cofferdam/backend-remote'

/** Attempts of a refused call. Few are enough: the worker has other backends, and the queue retries later. */
export const ATTEMPTS = 3
/** A server that asks for a longer pause counts as unavailable. */
const LONGEST_PAUSE_MS = 10_000
const PAUSE_MS = 500

/** Milliseconds until the next attempt, from `Retry-After` (seconds) or by default; null to give up. */
export function pauseAfter(attempt: number, headers: Headers | null): number | null {
  const pauseMs = retryAfterMs(headers?.get('retry-after')) ?? PAUSE_MS * 2 ** attempt
  return attempt >= ATTEMPTS || pauseMs > LONGEST_PAUSE_MS ? null : pauseMs
}
