/** What a service that takes no more for now (429) says of when to come back. */
import { retryAfterMs } from '@cofferdam/backend-remote'

/** A refused call is made three times at most; the worker has other backends and the queue has patience. */
export const ATTEMPTS = 3
/** A server that asks for more is out of service for us. */
const LONGEST_PAUSE_MS = 10_000
const PAUSE_MS = 500

/** Milliseconds until the next try after so many: `Retry-After` in seconds where there is one; it often is missing. Null for no more tries. */
export function pauseAfter(attempt: number, headers: Headers | null): number | null {
  const pauseMs = retryAfterMs(headers?.get('retry-after')) ?? PAUSE_MS * 2 ** attempt
  return attempt >= ATTEMPTS || pauseMs > LONGEST_PAUSE_MS ? null : pauseMs
}
