/**
 * The arrival rate of sessions: the mean of two counts that decay exponentially.
 *
 * The short one decays with the refill time. It is about the number of sessions that arrived since the pods
 * that are starting now were claimed, so it follows a burst within seconds. The long one knows the steady
 * rate between two arrivals. Both are unbiased, and so is their mean. Two numbers suffice whatever the rate.
 * A windowed count would need a bounded list of times, and would forget a burst in one step.
 */

/** Ten minutes: 60 arrivals at one every 10 s, so a steady rate is known within 13 % (1/√60). */
const LONG_SECONDS = 600

export interface Arrivals {
  arrived(nowMs: number): void
  /** Sessions per second. `refillSeconds` is the span of the short count, from now on. */
  perSecond(nowMs: number, refillSeconds: number): number
}

/** Starts without arrivals. A clock that goes back counts as one that stands still. */
export function createArrivals(startMs: number, firstRefillSeconds: number): Arrivals {
  let [short, long] = [0, 0]
  let shortSeconds = firstRefillSeconds
  let atMs = startMs

  const decay = (nowMs: number): void => {
    const passed = Math.max(0, nowMs - atMs) / 1000
    short *= Math.exp(-passed / shortSeconds)
    long *= Math.exp(-passed / LONG_SECONDS)
    atMs += passed * 1000
  }

  return {
    arrived(nowMs) {
      decay(nowMs)
      short += 1
      long += 1
    },
    perSecond(nowMs, refillSeconds) {
      decay(nowMs)
      shortSeconds = refillSeconds
      return (short / shortSeconds + long / LONG_SECONDS) / 2
    },
  }
}
