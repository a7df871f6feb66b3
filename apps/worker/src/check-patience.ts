/**
 * How long an execution is put off, uncharged, whose policy cannot be read or whose caps cannot be counted, before it ends as refused: a
 * failover of Redis or a restart of Postgres is over by then. When it was first put off stands in Redis, for another worker may take it next.
 */
import type { ExecutionId } from '@cofferdam/contract'
import type { Redis } from 'ioredis'

/** As long as a worker tries to write an ending (queue: writePatienceMs). */
const PATIENCE_MS = 60_000
/** It is remembered until nobody asks any more: as long again, for the time between two tries. */
const REMEMBERED_MS = 2 * PATIENCE_MS

/** True while the execution may be put off; `nowMs` is Redis' clock. */
export type CheckPatience = (
  execution: { tenantId: string; executionId: ExecutionId },
  nowMs: number,
) => Promise<boolean>

/** On a connection that waits while Redis is away. */
export function createCheckPatience(redis: Redis): CheckPatience {
  return async ({ tenantId, executionId }, nowMs) => {
    const key = `cfd:{${tenantId}}:unjudged:${executionId}`
    const since = await redis.set(key, nowMs, 'PX', REMEMBERED_MS, 'NX', 'GET')
    return nowMs - Number(since ?? nowMs) < PATIENCE_MS
  }
}
