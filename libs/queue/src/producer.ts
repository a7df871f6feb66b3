/**
 * The producer's side of the queue: put, wait, follow, cancel.
 *
 *            put, delay_ms > 0            due (promote)
 *   (new) ──────────────────────→ delayed ──────────┐
 *     │                              │              ▼
 *     └── put ─────────────────────────────────→ queued ── pick ──→ released ── take ──→ running
 *                                    │            ▲  │                 │                   │
 *                                    │            └──┼──── requeue ────┼───────────────────┤
 *                                    ▼               ▼                 ▼                   ▼
 *                                    └── cancel ─────┴── cancel ───────┴── cancel ──→ ended ← settle
 *
 * These are the states of an execution (field `s` of its record). Every arrow is one Lua script, so it
 * happens wholly or not at all. README.md has every transition with its script.
 */
import { randomUUID } from 'node:crypto'
import {
  CofferdamError,
  newExecutionId,
  programKindOf,
  type Accepted,
  type ExecutionId,
  type ExecutionRequest,
  type ExecutionResult,
  type ExecutionState,
  type StoredEvent,
} from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { bodyHash, idempotencyName } from './body-hash.ts'
import { cancelPage, type CancelledPage, type TenantCancel } from './cancel-tenant.ts'
import { createGuard } from './connect.ts'
import { endUnstarted, type RedactReason } from './end-unstarted.ts'
import { withEnqueueSpan } from './enqueue-span.ts'
import { enqueueWithBlobs } from './enqueue-with-blobs.ts'
import { createEventTails } from './event-tails.ts'
import { nonNegative, resultOf, stateOf } from './execution-state.ts'
import { cellOf, keysOf } from './cell.ts'
import { readEvents } from './live-events.ts'
import { liveFactsOf } from './live-filter.ts'
import { livePage, type LivePage, type LivePageAsked } from './live-page.ts'
import { needOf } from './needs.ts'
import { readStats, type QueueStats } from './queue-stats.ts'
import { neededWord, RECORD_VERSION } from './record-version.ts'
import { createReplies } from './replies.ts'
import { dehydrate, hydrate, withReuse, withTenantSession } from './request-blobs.ts'
import { numberOrNull, run, runCoded, SCRIPTS, text, type Reply } from './scripts.ts'
import { createServerRun } from './server-run.ts'
import { readOldest, readTenants, type TenantsSnapshot } from './tenant-figures.ts'
import { waitFactsOf, type WaitFact } from './why-waiting.ts'

export interface ProducerDeps {
  /** Connection of role `producer`. Not closed by the producer. */
  redis: Redis
  /** Connection of role `subscriber`; may be shared with a consumer. Not closed by the producer. */
  subscriber: Redis
  /** Wall clock for new ids, milliseconds; default Date.now. */
  now?: () => number
  /** Removes secrets from the reason that a caller gives for a cancel. Default: keeps the reason as it is. */
  redactReason?: RedactReason
  /** Creates execution IDs. Default: IDs with the time of `now` and the cell of the connection. */
  ids?: () => ExecutionId
  /** Version of the records that the producer writes. Default: that of this build. */
  recordVersion?: number
}

export interface TenantQueueLimits {
  /** Share of the slots under contention, relative to the weights of other tenants. */
  weight: number
  /** Executions that hold a slot at once. Null for the default. */
  concurrency: number | null
  /** Executions that wait at once. Null for the default. */
  max_queued: number | null
}

export interface Producer extends AsyncDisposable {
  /**
   * Accepts an execution durably, in the session of its run if the tenant's executions share one. With
   * `awaitReply` a following `wait` needs no round trip of its own. Throws queue_full (details: queued,
   * limit, and room_in_ms, the forecast or null), idempotency_conflict (details: execution_id) and
   * queue_unavailable (nothing was accepted, unless the connection broke in between; repeat safely with an
   * idempotency key).
   */
  put(request: ExecutionRequest, options?: { traceparent?: string; awaitReply?: boolean }): Promise<Accepted>
  /** The current state. Null when Redis has never known the execution, or has deleted it. */
  get(id: ExecutionId): Promise<ExecutionState | null>
  /** What the execution waits for, the strongest reason first. Empty once it has begun. Null as `get`. */
  whyWaiting(id: ExecutionId): Promise<WaitFact[] | null>
  /** The request as it was put. Null when the execution has ended or Redis does not know it. */
  request(id: ExecutionId): Promise<ExecutionRequest | null>
  /** The result. Null if the execution did not end in time. Throws not_found, or the signal's reason. */
  wait(id: ExecutionId, options: { timeoutMs: number; signal?: AbortSignal }): Promise<ExecutionResult | null>
  /** Events from the start or after `after`, until `ended` or until the signal aborts. Throws not_found. */
  events(id: ExecutionId, options: { after?: string; signal: AbortSignal }): AsyncIterable<StoredEvent>
  /** `cancelled`: this call ended the execution. `cancelling`: its worker was told to stop. */
  cancel(id: ExecutionId, reason?: string): Promise<'cancelled' | 'cancelling' | 'ended' | 'not_found'>
  /** Cancels one page of a tenant's executions, newest first. Continue with `next` until it is null. */
  cancelTenant(tenantId: string, asked: TenantCancel): Promise<CancelledPage>
  /** Delayed, queued and running executions of a tenant, newest first. */
  live(tenantId: string, limit: number): Promise<ExecutionState[]>
  /** One page of live executions, of all tenants if null. A filtered page may have fewer than `limit`. */
  livePage(tenantId: string | null, asked: LivePageAsked): Promise<LivePage>
  stats(): Promise<QueueStats>
  /** Every tenant with something waiting or running, 10,000 at most. Costs 2 to 3 ms per 100 tenants. */
  tenants(): Promise<TenantsSnapshot>
  /** Since when the oldest waiting execution of each tenant has been due, milliseconds since 1970. */
  oldestWaiting(tenantIds: readonly string[]): Promise<Map<string, number>>
  /** Applies from the next pick on, in the whole fleet. */
  setTenantLimits(tenantId: string, limits: TenantQueueLimits): Promise<void>
  /** Sets whether a tenant's executions share the session of their run. Applies to later puts. */
  setRunSessions(tenantId: string, shares: boolean): Promise<void>
}

/** Most executions that `live` returns. */
const LIVE_MAX = 1000
export function createProducer({
  redis,
  subscriber,
  now = Date.now,
  ids,
  redactReason,
  recordVersion = RECORD_VERSION,
}: ProducerDeps): Producer {
  const producerId = randomUUID()
  const newId = ids ?? (() => newExecutionId(now(), cellOf(redis).number))
  const guard = createGuard(redis)
  const serverRun = createServerRun(redis)
  const replies = createReplies(redis, subscriber, guard, producerId)
  const tails = createEventTails(redis, producerId)

  async function put(
    asked: ExecutionRequest,
    traceparent: string | null,
    awaitReply: boolean,
  ): Promise<Accepted> {
    const id = newId()
    const request = await withTenantSession(redis, asked)
    const { json, blobs } = dehydrate(request, recordVersion)
    const idempotency = idempotencyName(request)
    if (awaitReply) await replies.expect(id)
    const runId = await serverRun()
    const enqueued = enqueueWithBlobs(redis, keysOf(redis).record + id, blobs, [
      id,
      request.tenant_id,
      request.agent_id,
      request.lane,
      request.priority,
      request.delay_ms ?? 0,
      json,
      traceparent ?? '',
      idempotency,
      // Hashes the request as the caller sent it, because the policy may change before it is sent again.
      idempotency === '' ? '' : bodyHash(withReuse(asked)),
      awaitReply ? replies.channel : '',
      request.session?.key ?? '',
      request.callback_url ?? '',
      runId,
      [needOf(request), ...neededWord(recordVersion)].join(','),
      programKindOf(request.program),
      request.rerun_of ?? '',
      liveFactsOf(request),
    ])
    if (awaitReply) enqueued.catch(() => replies.unexpect(id))
    const { code, rest } = await enqueued
    if (awaitReply && code !== 'accepted') {
      replies.unexpect(id)
      if (code === 'duplicate' && text(rest[1]) !== 'ended')
        await replies.expect(text(rest[0]) as ExecutionId)
    }
    return acceptedOf(code, rest)
  }

  function acceptedOf(code: string, rest: Reply[]): Accepted {
    if (code === 'full')
      throw new CofferdamError('queue_full', undefined, {
        details: {
          queued: numberOrNull(rest[0]),
          limit: numberOrNull(rest[1]),
          room_in_ms: nonNegative(rest[2]),
        },
      })
    if (code === 'conflict')
      throw new CofferdamError('idempotency_conflict', undefined, {
        details: { execution_id: text(rest[0]) },
      })
    return {
      execution_id: text(rest[0]) as ExecutionId,
      status: text(rest[1]) as Accepted['status'],
      position: nonNegative(rest[2]),
      eta_ms: nonNegative(rest[3]),
      deduplicated: code === 'duplicate',
    }
  }

  return {
    put: (request, { traceparent, awaitReply = false } = {}) =>
      withEnqueueSpan(request, traceparent ?? request.traceparent, (context) =>
        guard(() => put(request, context, awaitReply)),
      ),
    async get(id) {
      const { code, rest } = await guard(() =>
        runCoded(redis, SCRIPTS.locate, keysOf(redis).record + id, [id]),
      )
      return code === 'found' ? stateOf(rest[0], resultOf(text(rest[1]))) : null
    },
    async whyWaiting(id) {
      const { code, rest } = await guard(() => runCoded(redis, SCRIPTS.why, keysOf(redis).record + id, [id]))
      return code === 'found' ? waitFactsOf(text(rest[0])) : null
    },
    request: (id) =>
      guard(async () => {
        const stored = await redis.hget(keysOf(redis).record + id, 'req')
        return stored === null ? null : hydrate(redis, stored)
      }),
    wait: (id, options) => replies.wait(id, options),
    events: (id, options) => readEvents(redis, guard, tails, id, options),
    async cancel(id, reason = 'cancelled by the caller') {
      const ending = { ending: 'cancelled', reason: 'cancelled', message: reason } as const
      const code = await guard(() => endUnstarted(redis, id, ending, true, redactReason))
      // With `alsoRunning`, the answer for a running execution is `cancelling`. The type has `running` for
      // calls without it.
      return code === 'running' ? 'cancelling' : code
    },
    cancelTenant: (tenantId, asked) => guard(() => cancelPage(redis, tenantId, asked, redactReason)),
    async live(tenantId, limit) {
      return (await livePage(redis, guard, tenantId, { limit: Math.min(limit, LIVE_MAX) })).states
    },
    livePage: (tenantId, asked) => livePage(redis, guard, tenantId, asked),
    stats: () => guard(() => readStats(redis)),
    tenants: () => readTenants(redis, guard),
    oldestWaiting: (tenantIds) => readOldest(redis, guard, tenantIds),
    async setTenantLimits(tenantId, { weight, concurrency, max_queued }) {
      await guard(() =>
        run(redis, SCRIPTS.limits, keysOf(redis).window, [
          tenantId,
          weight,
          concurrency ?? '',
          max_queued ?? '',
        ]),
      )
    },
    async setRunSessions(tenantId, shares) {
      const key = keysOf(redis).runSessions
      await guard(() => (shares ? redis.sadd(key, tenantId) : redis.srem(key, tenantId)))
    },
    async [Symbol.asyncDispose]() {
      tails.close()
      await replies.close()
    },
  }
}
