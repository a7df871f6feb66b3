/**
 * The arrival rate of sessions: the mean of two counts that decay exponentially.
 *
 * The short count decays with the refill time. So it roughly counts the sessions that arrived during the last
 * refill, and follows a burst within seconds. The long count remembers the steady rate between two arrivals.
 * Both are unbiased, and so is their mean. Two numbers are enough at any rate. A windowed count would need a
 * bounded list of times, and would forget a burst in one step.
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
