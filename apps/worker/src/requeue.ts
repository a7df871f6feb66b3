/** How an execution that has not begun goes back to the queue, and when it returns. */
import type { ExecutionId } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import type { Redis } from 'ioredis'

/** Times are in Redis' clock. The caller of the execution sees `why` as a notice. */
export type Requeue =
  /** It does not wait: it is the next execution of its agent. */
  | { waits: 'not' }
  /** No other execution of its tenant has to wait. */
  | { waits: 'alone'; untilMs: number; why: string }
  /** No execution of its tenant gets a slot before `untilMs`. */
  | { waits: 'tenant'; untilMs: number; why: string }

/** Requeues the execution. Refund it before: while it waits it can be cancelled, and must not be charged. */
export async function requeue(taken: Taken, back: Requeue): Promise<void> {
  if (back.waits === 'not') await taken.giveBack()
  else if (back.waits === 'alone') await taken.putOff(back.untilMs, back.why)
  else await taken.defer(back.untilMs, back.why)
}

/** Requeued tenants return spread over this time. */
const JITTER_MS = 1000

export const withJitter = (atMs: number): number => atMs + Math.random() * JITTER_MS

/** Pause between two tries of a check whose store does not answer. */
const CHECK_RETRY_MS = 1000

/** How to wait for the store that a check of policy or caps needs. Null after a long enough wait. */
export async function requeueUnchecked(
  { executionId, request, nowMs }: Pick<Taken, 'executionId' | 'request' | 'nowMs'>,
  check: 'policy' | 'caps',
  deps: { mayRetryCheck: MayRetryCheck },
): Promise<Requeue | null> {
  if (!(await deps.mayRetryCheck({ tenantId: request.tenant_id, executionId }, nowMs()))) return null
  const why = `Waits for its ${check} check, which cannot be made now.`
  return { waits: 'tenant', untilMs: withJitter(nowMs() + CHECK_RETRY_MS), why }
}

/**
 * How long an execution waits for a check. By then a failover of Redis or a restart of Postgres is over. The
 * queue retries the write of an ending for the same time (writePatienceMs).
 */
const CHECK_GRACE_MS = 60_000

/** True during the execution's grace period, which starts with the first call. `nowMs` is Redis' clock. */
export type MayRetryCheck = (
  execution: { tenantId: string; executionId: ExecutionId },
  nowMs: number,
) => Promise<boolean>

/**
 * Keeps the start of each grace period in Redis, because another worker may claim the execution next. `redis`
 * must wait while Redis is away.
 */
export function createCheckGrace(redis: Redis): MayRetryCheck {
  return async ({ tenantId, executionId }, nowMs) => {
    const key = `cfd:{${tenantId}}:unjudged:${executionId}`
    const since = await redis.set(key, nowMs, 'PX', 2 * CHECK_GRACE_MS, 'NX', 'GET')
    return nowMs - Number(since ?? nowMs) < CHECK_GRACE_MS
  }
}

/** The first execution returns soon, because a full backend has capacity again when a program ends. */
const FIRST_RETURN_MS = 1000
/** Claiming and requeueing one execution costs some milliseconds of Redis and of this worker. */
const RETURN_GAP_MS = 50
/** When more than 600 executions wait, the gap between them becomes shorter. */
const LAST_RETURN_MS = 30_000

/**
 * The time at which the next execution that waits for a full backend returns (Redis' clock, as is `nowMs`).
 * These executions return one after the other, to keep their order. If the backend is still full, most of
 * them are requeued without asking its vendor: only one asks at a time.
 */
export function createReturnTimes(): (nowMs: number) => number {
  let lastMs = 0
  return (nowMs) => {
    lastMs = Math.min(Math.max(nowMs + FIRST_RETURN_MS, lastMs + RETURN_GAP_MS), nowMs + LAST_RETURN_MS)
    return lastMs
  }
}
