/** A signal with an end: every await on a backend has one, because a backend may hang. */
import type { Clock } from './clock.ts'

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
