/** Monotonic time, replaceable so that tests decide when a deadline passes; and waiting with a bound. */

export interface Clock {
  /** Monotonic milliseconds; only differences mean something. */
  nowMs(): number
  /** Calls `run` once after `ms`. The returned function clears the timer and may be called at any moment. */
  after(ms: number, run: () => void): () => void
}

/** The clock of the process. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

/** Resolves true when `work` settles (either way) within `ms`, false when it does not. Never rejects. */
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
 * on a backend has one, because a backend may hang. Not AbortSignal.any: its weak references cost the garbage
 * collector more than everything else here.
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
