/** A token bucket in this process: for a worker that is lent none that the fleet shares. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, type RateGate } from '@cofferdam/contract'

/** Of the contract: a fifth of a second's calls may come at once. */
const BURST_MS = 200

/** Creates one. Turns are given in the order in which they are asked for. */
export function createLocalRateGate(): RateGate {
  const freeAt = new Map<string, number>()
  return {
    async take(bucket, perSecond, { waitMs, signal }) {
      signal.throwIfAborted()
      const now = performance.now()
      // When the bucket would be full again, were nothing taken any more.
      const betweenMs = 1000 / perSecond
      const at = Math.max(now, freeAt.get(bucket) ?? 0) + betweenMs
      // The first one never waits, however slow the rate.
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
