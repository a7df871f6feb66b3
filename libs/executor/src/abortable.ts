/** Waiting that ends when a signal does: every await on a backend goes through here, because a backend may hang. */
import type { Clock } from './clock.ts'

/**
 * Settles as `work` does, or rejects with the signal's reason once it aborts. `work` itself goes on; whoever
 * started it still owns what it yields. Its late rejection is swallowed.
 */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const onAbort = () => aborted.reject(signal.reason)
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([aborted.promise, work])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** A signal that aborts with `signal`, or with `reason` after `ms`. Dispose it to clear the timer. */
export function withDeadline(
  clock: Clock,
  signal: AbortSignal,
  ms: number,
  reason: Error,
): { readonly signal: AbortSignal } & Disposable {
  const deadline = new AbortController()
  const clear = clock.after(ms, () => deadline.abort(reason))
  return { signal: AbortSignal.any([signal, deadline.signal]), [Symbol.dispose]: clear }
}
