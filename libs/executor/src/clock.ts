/** A monotonic clock that tests can replace, and bounded waits. */

export interface Clock {
  /** Monotonic milliseconds. Only differences mean something. */
  nowMs(): number
  /** Calls `run` once after `ms`. The returned function clears the timer and may be called at any time. */
  after(ms: number, run: () => void): () => void
}

export const systemClock: Clock = {
  nowMs: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

/** Resolves true when `work` settles (either way) within `ms`, otherwise false. Never rejects. */
export function settlesWithin(clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    const clear = clock.after(ms, () => resolve(false))
    const settled = () => {
      clear()
      resolve(true)
    }
    work.then(settled, settled)
  })
}

/**
 * A signal that aborts with `signal`, or with `reason` after `ms`. Dispose it to clear the timer. Every await
 * on a backend uses one, because a backend may hang. AbortSignal.any would cost more garbage collection than
 * everything else here, because of its weak references.
 */
export function withDeadline(
  clock: Clock,
  signal: AbortSignal,
  ms: number,
  reason: Error,
): { readonly signal: AbortSignal } & Disposable {
  const bound = new AbortController()
  const onAbort = () => bound.abort(signal.reason)
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  const clear = clock.after(ms, () => bound.abort(reason))
  return {
    signal: bound.signal,
    [Symbol.dispose]() {
      clear()
      signal.removeEventListener('abort', onAbort)
    },
  }
}
