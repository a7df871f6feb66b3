/**
 * Sandboxes that a vendor may still run although we asked to end them: the end was not confirmed, or a lost
 * answer hides what a request made. Their owner is alive, so no janitor sweeps them. They are ended again
 * with each round of the janitor until they are gone.
 */

/**
 * At most so many sandboxes are remembered. If there are more, the vendor is down, and its own deadline ends
 * the others.
 */
const LEFT_MAX = 1000

export interface LeftTimes {
  /**
   * Until this time the sandbox may appear, or appear again, at the vendor. So it stays remembered even if it
   * was gone.
   */
  comesUntilMs?: number
  /** At this time the vendor ends the sandbox by itself, so it is then forgotten. */
  endsAtMs?: number
}

export interface LeftBehind {
  /** Ends `what` by calling `work`, whose result it returns. Remembers it until it is gone for good. */
  end<T>(what: string, work: () => Promise<T>, times?: LeftTimes): Promise<T>
  /** Tries again to end everything that is remembered. Never rejects. */
  endAll(): Promise<void>
}

export function createLeftBehind(): LeftBehind {
  const left = new Map<string, Required<LeftTimes> & { work: () => Promise<unknown> }>()

  async function end<T>(what: string, work: () => Promise<T>, times: LeftTimes = {}): Promise<T> {
    const known = left.get(what)
    const comesUntilMs = Math.max(times.comesUntilMs ?? 0, known?.comesUntilMs ?? 0)
    const endsAtMs = known?.endsAtMs ?? times.endsAtMs ?? Number.POSITIVE_INFINITY
    let isGone = false
    try {
      const ended = await work()
      isGone = Date.now() >= comesUntilMs
      return ended
    } finally {
      if (isGone) left.delete(what)
      else if (left.size < LEFT_MAX || left.has(what)) left.set(what, { work, comesUntilMs, endsAtMs })
    }
  }

  return {
    end,
    async endAll() {
      const nowMs = Date.now()
      for (const [what, { endsAtMs }] of left) if (endsAtMs <= nowMs) left.delete(what)
      await Promise.allSettled([...left].map(([what, { work }]) => end(what, work)))
    },
  }
}
