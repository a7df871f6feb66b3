/** How many warm slots of a kind should wait, by the rate at which they are taken and their warm-up time. */

/** Spans of the averages: the short one notices a burst, the long one remembers steady traffic. */
const SPANS_MS = [2_000, 30_000] as const
/** Weight of the newest warm-up time: after ten starts the older ones hardly count. */
const WARM_UP_WEIGHT = 0.2
/** Before any measurement: between bwrap (0.03 s) and gVisor (0.5 s). */
const FIRST_WARM_UP_MS = 200

export interface Demand {
  arrived(nowMs: number): void
  warmed(tookMs: number): void
  /** Number of slots that should wait or warm at `nowMs`. */
  target(nowMs: number): number
  readonly lastArrivalMs: number
}

/**
 * Poisson arrivals of rate r find a slot with about 99 % probability when r·W + 2.3·√(r·W) slots are warming
 * or ready (W is the warm-up time). One more waits for the next arrival.
 */
export function createDemand(nowMs: number): Demand {
  const counts = SPANS_MS.map(() => 0)
  let countedAtMs = nowMs
  let lastArrivalMs = nowMs
  let warmUpMs = FIRST_WARM_UP_MS

  const decay = (now: number): void => {
    const passed = Math.max(0, now - countedAtMs)
    SPANS_MS.forEach((span, i) => (counts[i] = (counts[i] ?? 0) * Math.exp(-passed / span)))
    countedAtMs = now
  }

  return {
    get lastArrivalMs() {
      return lastArrivalMs
    },
    arrived(now) {
      decay(now)
      SPANS_MS.forEach((_, i) => (counts[i] = (counts[i] ?? 0) + 1))
      lastArrivalMs = now
    },
    warmed(tookMs) {
      warmUpMs += WARM_UP_WEIGHT * (tookMs - warmUpMs)
    },
    target(now) {
      decay(now)
      const perMs = Math.max(...SPANS_MS.map((span, i) => (counts[i] ?? 0) / span))
      const underWay = perMs * warmUpMs
      return Math.ceil(underWay + 2.3 * Math.sqrt(underWay)) + 1
    },
  }
}
