/** In-process token bucket, for a worker that has no bucket shared by the fleet. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, type RateGate } from '@cofferdam/contract'

/** As the contract says: the calls of a fifth of a second may come at once. */
const BURST_MS = 200

/** Grants turns in the order of the requests. */
export function createLocalRateGate(): RateGate {
  const freeAt = new Map<string, number>()
  return {
    async take(bucket, perSecond, { waitMs, signal }) {
      signal.throwIfAborted()
      const now = performance.now()
      // `at`: time at which the bucket is full again if no further token is taken.
      const betweenMs = 1000 / perSecond
      const at = Math.max(now, freeAt.get(bucket) ?? 0) + betweenMs
      // The first call never waits, however slow the rate is.
      const untilMs = at - now - Math.max(BURST_MS, betweenMs)
      if (untilMs > waitMs)
        throw new CofferdamError(
          'backend_unavailable',
          `The rate of ${bucket} is used up for ${Math.ceil(untilMs)} ms.`,
          { details: { full: true } },
        )
      freeAt.set(bucket, at)
      if (untilMs > 0)
        await sleep(untilMs, undefined, { signal }).catch(() => {
          signal.throwIfAborted()
        })
    },
  }
}
