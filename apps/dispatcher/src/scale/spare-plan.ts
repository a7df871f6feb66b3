/** One pool's number of spare pods over time: arrivals and refill time in, `replicas` out. */
import { createArrivals } from './arrivals.ts'
import { createRefillTime } from './refill-time.ts'
import type { SpareSettings } from './spare-settings.ts'
import { nextSpare, wantedSpare, type SpareState } from './spare-target.ts'

export interface SparePlan {
  /** A session arrived. It may need a new sandbox. */
  arrived(nowMs: number): void
  /** A session's sandbox was ready `tookMs` after it was asked for. */
  sandboxReady(tookMs: number, nowMs: number): void
  /**
   * Returns the number of spare pods from now on. `current` is the number that the pool is set to, by us or
   * by somebody else. Null if unknown. It lets a restarted dispatcher give up existing spare pods as slowly
   * as before.
   */
  next(nowMs: number, depth: number, current: number | null): number
  /** What `next` returned last. `min` before. */
  readonly spare: number
}

/** `nowMs` is the time of a monotonic clock, here and in each call. */
export function createSparePlan(settings: SpareSettings, nowMs: number): SparePlan {
  const arrivals = createArrivals(nowMs, settings.refill_seconds)
  const refill = createRefillTime(settings.refill_seconds)
  const keptFrom = (spare: number, fromMs: number): SpareState => ({
    spare: Math.min(spare, settings.max),
    keepUntilMs: fromMs + settings.hold_seconds * 1000,
  })
  let state = keptFrom(settings.min, nowMs)
  return {
    arrived: (now) => arrivals.arrived(now),
    sandboxReady: (tookMs, now) => refill.sandboxReady(tookMs, now),
    next(now, depth, current) {
      if (current !== null && current !== state.spare) state = keptFrom(current, now)
      const refillSeconds = refill.seconds(now)
      const arrivalsPerSecond = arrivals.perSecond(now, refillSeconds)
      const wanted = wantedSpare({ depth, arrivalsPerSecond, refillSeconds }, settings)
      state = nextSpare(state, wanted, now, settings)
      return state.spare
    },
    get spare() {
      return state.spare
    },
  }
}
