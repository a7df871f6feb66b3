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

/**
 * A signal that aborts with `signal`, or with `reason` after `ms` (a function makes it only then: an error costs its stack).
 * Dispose it to clear the timer. Not AbortSignal.any: the
 * weak references in it cost the garbage collector more than everything else here.
 */
export function withDeadline(
  clock: Clock,
  signal: AbortSignal,
  ms: number,
  reason: Error | (() => Error),
): { readonly signal: AbortSignal } & Disposable {
  const bound = new AbortController()
  const onAbort = () => bound.abort(signal.reason)
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  const clear = clock.after(ms, () => bound.abort(typeof reason === 'function' ? reason() : reason))
  return {
    signal: bound.signal,
    [Symbol.dispose]() {
      clear()
      signal.removeEventListener('abort', onAbort)
    },
  }
}
