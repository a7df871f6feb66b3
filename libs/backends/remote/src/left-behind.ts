/**
 * What a vendor may still run although its end was asked for: ends that were not confirmed, and what an answer that was lost may have made,
 * or may make later. Its owner lives, so no janitor sweeps it: it is asked for again with each of the janitor's rounds, until it is gone.
 */

/** More at once are a vendor that is out; what is left out ends by the vendor's own clock. */
const LEFT_MAX = 1000

export interface LeftTimes {
  /** Until then it may come, or come again: it is looked for though it was seen to be gone. */
  comesUntilMs?: number
  /** From then on its vendor has ended it. */
  endsAtMs?: number
}

export interface LeftBehind {
  /** Ends `what` by `work`, which rejects where that is not known, and resolves as it does; remembered until it is gone for good. */
  end<T>(what: string, work: () => Promise<T>, times?: LeftTimes): Promise<T>
  /** Asks again for all that is remembered. Never rejects. */
  endAll(): Promise<void>
}

/** Creates an empty one. */
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
