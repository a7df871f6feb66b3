/**
 * Rates that all workers of a fleet share, such as a vendor's calls per second and account. If Redis is away,
 * every call passes, because the vendor enforces its rate itself and stopping a sandbox must not depend on
 * Redis.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, isCofferdamError, type RateGate } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { keys } from './keys.ts'
import { defineScripts } from './scripts.ts'

const SECOND_US = 1_000_000
/** `RateGate` of the contract allows a burst of a fifth of a second's calls. */
const BURST_US = SECOND_US / 5
/** If Redis takes longer to answer, the call passes. */
const TIMEOUT_MS = 1_000

/** Works on any connection of role worker or producer. The caller owns the connection. */
export function createRateGate({
  redis,
  timeoutMs = TIMEOUT_MS,
}: {
  redis: Redis
  timeoutMs?: number
}): RateGate {
  const scripts = defineScripts(redis, timeoutMs)
  return {
    async take(bucket, perSecond, { waitMs, signal }) {
      signal.throwIfAborted()
      const reply = await scripts
        .run('take-turn', [keys.rate(bucket)], [Math.ceil(SECOND_US / perSecond), BURST_US, waitMs * 1000])
        .catch((error: unknown) => {
          if (isCofferdamError(error) && error.code === 'queue_unavailable') return null
          throw error
        })
      if (reply === null) return
      const untilMs = Math.ceil(Number(reply.rest[0]) / 1000)
      if (reply.code === 'full')
        throw new CofferdamError(
          'backend_unavailable',
          `The rate of ${bucket} is used up for ${untilMs} ms.`,
          {
            details: { full: true },
          },
        )
      if (untilMs > 0)
        await sleep(untilMs, undefined, { signal }).catch(() => {
          signal.throwIfAborted()
        })
    },
  }
}
