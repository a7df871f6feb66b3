/** A token bucket in this process: for a worker that is lent none that the fleet shares. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, type RateGate } from '@cofferdam/contract'

/** Creates one. Turns are given in the order in which they are asked for. */
export function createLocalRateGate(): RateGate {
  const freeAt = new Map<string, number>()
  return {
    async take(bucket, perSecond, { waitMs, signal }) {
      signal.throwIfAborted()
      const now = performance.now()
      // When the bucket would be full again, were nothing taken any more.
      const at = Math.max(now, freeAt.get(bucket) ?? 0) + 1000 / perSecond
      const untilMs = at - now - 1000
      if (untilMs > waitMs)
        throw new CofferdamError(
          'backend_unavailable',
          `The rate of ${bucket} is used up for ${Math.ceil(untilMs)} ms.`,
        )
      freeAt.set(bucket, at)
      if (untilMs > 0)
        await sleep(untilMs, undefined, { signal }).catch(() => {
          signal.throwIfAborted()
        })
    },
  }
}
