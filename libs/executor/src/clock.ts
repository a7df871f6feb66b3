/** Time as the executor sees it: monotonic, and replaceable so that tests decide when a deadline passes. */

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
