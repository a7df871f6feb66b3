/** How an execution that has not begun goes back to the queue, and when it comes back. */
import type { ExecutionId } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import type { Redis } from 'ioredis'

/** Times are of Redis' clock. The caller of the execution sees `why` as a notice. */
export type Requeue =
  /** It is next in line of its agent. */
  | { waits: 'not' }
  /** Nothing else of its tenant has to wait. */
  | { waits: 'alone'; untilMs: number; why: string }
  /** No execution of its tenant gets a slot before `untilMs`. */
  | { waits: 'tenant'; untilMs: number; why: string }

/** Puts the execution back. Refund it before: it can be cancelled while it waits, and is not charged then. */
export async function requeue(taken: Taken, back: Requeue): Promise<void> {
  if (back.waits === 'not') await taken.giveBack()
  else if (back.waits === 'alone') await taken.putOff(back.untilMs, back.why)
  else await taken.defer(back.untilMs, back.why)
}

/** Requeued tenants come back spread over this. */
const JITTER_MS = 1000

export const withJitter = (atMs: number): number => atMs + Math.random() * JITTER_MS

/** Between two tries of a check that needs a store which does not answer. */
const CHECK_RETRY_MS = 1000

/**
 * How to wait for a store that a check of policy or caps needs; null when the execution has waited long
 * enough.
 */
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
 * A failover of Redis or a restart of Postgres is over by then. The queue tries as long to write an ending
 * (writePatienceMs).
 */
const CHECK_GRACE_MS = 60_000

/**
 * True while the grace period of the execution lasts, which starts with the first call. `nowMs` is Redis'
 * clock.
 */
export type MayRetryCheck = (
  execution: { tenantId: string; executionId: ExecutionId },
  nowMs: number,
) => Promise<boolean>

/**
 * Keeps the start of each grace period in Redis, because another worker may claim the execution next. `redis`
 * is a connection that waits while Redis is away.
 */
export function createCheckGrace(redis: Redis): MayRetryCheck {
  return async ({ tenantId, executionId }, nowMs) => {
    const key = `cfd:{${tenantId}}:unjudged:${executionId}`
    const since = await redis.set(key, nowMs, 'PX', 2 * CHECK_GRACE_MS, 'NX', 'GET')
    return nowMs - Number(since ?? nowMs) < CHECK_GRACE_MS
  }
}

/** A full backend has room when somebody's program ends. */
const FIRST_RETURN_MS = 1000
/** Claiming and requeueing one execution costs some milliseconds of Redis and of this worker. */
const RETURN_GAP_MS = 50
/** When more than 600 executions wait, the gap between them is shorter. */
const LAST_RETURN_MS = 30_000

/**
 * Tells the time at which the next execution that waits for a full backend comes back (Redis' clock, like
 * `nowMs`). They come back one after the other, so that they keep their order. Those that come while the
 * backend is full are requeued again without asking it.
 */
export function createReturnTimes(): (nowMs: number) => number {
  let lastMs = 0
  return (nowMs) => {
    lastMs = Math.min(Math.max(nowMs + FIRST_RETURN_MS, lastMs + RETURN_GAP_MS), nowMs + LAST_RETURN_MS)
    return lastMs
  }
}
