/**
 * The producer's side of the queue: put, wait, follow, cancel.
 *
 * State machine of an execution (field `s` of its record; every arrow is one Lua script, so it happens wholly or
 * not at all):
 *
 *            put, delay_ms > 0            due (promote)
 *   (new) ──────────────────────→ delayed ──────────┐
 *     │                              │              ▼
 *     └── put ─────────────────────────────────→ queued ── pick ──→ released ── take ──→ running
 *                                    │            ▲  │                 │  ▲                │ │
 *                                    │            │  │                 │  └ sweep: job     │ │ begin: point of no
 *                                    │            │  │                 │    lost, add      │ │ return (`bg` is set)
 *                                    │            │  │                 │    again          │ │
 *                                    │            └──┼── requeue ──────┼───────────────────┤ │
 *                                    │               │  (retry, defer, │                   │ │
 *                                    ▼               ▼   give back)    ▼                   ▼ ▼
 *                                    └── cancel ─────┴── cancel ───────┴── cancel ──→ ended ← settle
 *
 *   queued    in the backlog of its agent; the fair scheduler decides when it leaves (lua/include/pick.lua).
 *             One that names a session waits there only as its front; the others wait behind it. Picked for a session
 *             whose owner lives, it waits in that worker's hand and is taken from there without BullMQ
 *             (lua/include/session.lua, lua/take-handed.lua): queued → running in one step.
 *   released  holds a slot of its tenant; a BullMQ job of its lane carries it to a worker.
 *   running   owned by the worker whose fence stands in `f`. Every take raises the fence, so the writes of an earlier
 *             owner fail. Taken again without `bg`: same attempt, nothing happened. Taken again with `bg`: the
 *             new owner is told (`interrupted`) and decides between worker_lost and retry.
 *   ended     result in `r:<id>`; record, result and live stream expire together.
 *
 * Cancelling a running execution sets a flag that `begin` refuses by, and tells its worker.
 * If Redis loses a suffix of its log (AOF everysec: at most 1 s), executions move back along the arrows and run or
 * end again; the audit row's key (execution, attempt) keeps that from counting twice.
 */
import { randomUUID } from 'node:crypto'
import {
  CofferdamError,
  newExecutionId,
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
import { createEventTails } from './event-tails.ts'
import { nonNegative, resultOf, stateOf } from './execution-state.ts'
import { KEYS } from './keys.ts'
import { readEvents } from './live-events.ts'
import { needOf } from './needs.ts'
import { readStats, type QueueStats } from './queue-stats.ts'
import { createReplies } from './replies.ts'
import { dehydrate, hydrate, storeBlobs } from './request-blobs.ts'
import { placed, withReuse, writeRunSessions } from './run-sessions.ts'
import { list, numberOrNull, run, runCoded, SCRIPTS, text, type Reply } from './scripts.ts'
import { createServerLife } from './server-life.ts'

export interface ProducerDeps {
  /** Connection of role `producer`. Not closed by the producer. */
  redis: Redis
  /** Connection of role `subscriber`; may be shared with a consumer. Not closed by the producer. */
  subscriber: Redis
  /** Wall clock for new ids, milliseconds; default Date.now. */
  now?: () => number
  /** Takes secrets out of the reason that a caller gives for a cancel; default: it stays as it is. */
  redactReason?: RedactReason
  /** Makes execution ids; default UUIDv7 of `now`. */
  ids?: () => ExecutionId
}

export interface TenantQueueLimits {
  /** Share under contention, relative to 1. */
  weight: number
  /** Executions that hold a slot at once; null for the default. */
  concurrency: number | null
  /** Executions that wait at once; null for the default. */
  max_queued: number | null
}

/** A page of live executions. */
export interface LivePage {
  states: ExecutionState[]
  /** Null at the end. */
  next: string | null
}

export interface Producer extends AsyncDisposable {
  /**
   * Accepts an execution durably, in the session of its run where its tenant has that. With `awaitReply` a following `wait` needs no round trip of its own.
   * Throws queue_full (details: queued, limit, and room_in_ms, the forecast, null when unknown), idempotency_conflict (details: execution_id), queue_unavailable
   * (nothing was accepted, unless the connection broke in between: use an idempotency key to repeat safely).
   */
  put(request: ExecutionRequest, options?: { traceparent?: string; awaitReply?: boolean }): Promise<Accepted>
  /** What is known now; null when Redis does not know it (any more). */
  get(id: ExecutionId): Promise<ExecutionState | null>
  /** The request as it was put; null when Redis does not know it (any more), or when it ended. */
  request(id: ExecutionId): Promise<ExecutionRequest | null>
  /** The result; null when it did not end within `timeoutMs`. Throws not_found, or the reason of the aborted signal. */
  wait(id: ExecutionId, options: { timeoutMs: number; signal?: AbortSignal }): Promise<ExecutionResult | null>
  /** Events from the start or behind `after`; ends after `ended` or when the signal aborts. Throws not_found. */
  events(id: ExecutionId, options: { after?: string; signal: AbortSignal }): AsyncIterable<StoredEvent>
  /** `cancelled`: ended by this call; `cancelling`: its worker was told. */
  cancel(id: ExecutionId, reason?: string): Promise<'cancelled' | 'cancelling' | 'ended' | 'not_found'>
  /** Cancels one page of what a tenant has in the queue, newest first; go on with `next` until it is null. */
  cancelTenant(tenantId: string, asked: TenantCancel): Promise<CancelledPage>
  /** Delayed, queued and running executions of a tenant, newest first. */
  live(tenantId: string, limit: number): Promise<ExecutionState[]>
  /** The same a page at a time, of all tenants for null. `before` is `next` of the page before. */
  livePage(tenantId: string | null, asked: { limit: number; before?: string }): Promise<LivePage>
  stats(): Promise<QueueStats>
  /** Holds from the next pick on, in the whole fleet. */
  setTenantLimits(tenantId: string, limits: TenantQueueLimits): Promise<void>
  /** Whether executions of a tenant share the session of their run; holds for those put from now on. */
  setRunSessions(tenantId: string, shares: boolean): Promise<void>
}

/** Executions that `live` returns at most. */
const LIVE_MAX = 1000
/** Described by one script call: each costs a forecast, so this keeps a call below about 5 ms. */
const LIVE_CHUNK = 100

export function createProducer({
  redis,
  subscriber,
  now = Date.now,
  ids,
  redactReason,
}: ProducerDeps): Producer {
  const producerId = randomUUID()
  const newId = ids ?? (() => newExecutionId(now()))
  const guard = createGuard(redis)
  const life = createServerLife(redis)
  const replies = createReplies(redis, subscriber, guard, producerId)
  const tails = createEventTails(redis, producerId)

  async function put(
    asked: ExecutionRequest,
    traceparent: string | null,
    awaitReply: boolean,
  ): Promise<Accepted> {
    const id = newId()
    const request = await placed(redis, asked)
    const { json, blobs } = dehydrate(request)
    const idempotency = idempotencyName(request)
    await storeBlobs(redis, blobs)
    if (awaitReply) await replies.expect(id)
    const ofLife = await life()
    const enqueued = runCoded(redis, SCRIPTS.enqueue, KEYS.record + id, [
      id,
      request.tenant_id,
      request.agent_id,
      request.lane,
      request.priority,
      request.delay_ms ?? 0,
      json,
      traceparent ?? '',
      idempotency,
      // Of what was asked: the policy may change before the same request is sent again.
      idempotency === '' ? '' : bodyHash(withReuse(asked)),
      awaitReply ? replies.channel : '',
      request.session?.key ?? '',
      request.callback_url ?? '',
      ofLife,
      needOf(request),
    ])
    if (awaitReply) enqueued.catch(() => replies.forget(id))
    const { code, rest } = await enqueued
    if (awaitReply && code !== 'accepted') {
      replies.forget(id)
      if (code === 'duplicate' && text(rest[1]) !== 'ended')
        await replies.expect(text(rest[0]) as ExecutionId)
    }
    return acceptedOf(code, rest)
  }

  async function livePage(
    tenantId: string | null,
    { limit, before = '' }: { limit: number; before?: string },
  ): Promise<LivePage> {
    const states: ExecutionState[] = []
    let place: string | null = before
    while (place !== null && states.length < limit) {
      const wanted = Math.min(LIVE_CHUNK, limit - states.length)
      const asked: (string | number)[] = [tenantId ?? '', wanted, place]
      const reply = list(await guard(() => run(redis, SCRIPTS.live, KEYS.window, asked)))
      for (const description of list(reply[0])) states.push(stateOf(description, null))
      // An entry without a record makes a page shorter; only an empty one is the end.
      place = text(reply[1]) === '' ? null : text(reply[1])
    }
    return { states, next: place }
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
      const { code, rest } = await guard(() => runCoded(redis, SCRIPTS.locate, KEYS.record + id, [id]))
      return code === 'found' ? stateOf(rest[0], resultOf(text(rest[1]))) : null
    },
    request: (id) =>
      guard(async () => {
        const stored = await redis.hget(KEYS.record + id, 'req')
        return stored === null ? null : hydrate(redis, stored)
      }),
    wait: (id, options) => replies.wait(id, options),
    events: (id, options) => readEvents(redis, guard, tails, id, options),
    async cancel(id, reason = 'cancelled by the caller') {
      const ending = { ending: 'cancelled', reason: 'cancelled', message: reason } as const
      const code = await guard(() => endUnstarted(redis, id, ending, true, redactReason))
      // A running one is flagged, so `running` is never the answer here.
      return code === 'running' ? 'cancelling' : code
    },
    cancelTenant: (tenantId, asked) => guard(() => cancelPage(redis, tenantId, asked, redactReason)),
    async live(tenantId, limit) {
      return (await livePage(tenantId, { limit: Math.min(limit, LIVE_MAX) })).states
    },
    livePage,
    stats: () => guard(() => readStats(redis)),
    async setTenantLimits(tenantId, { weight, concurrency, max_queued }) {
      await guard(() =>
        run(redis, SCRIPTS.limits, KEYS.window, [tenantId, weight, concurrency ?? '', max_queued ?? '']),
      )
    },
    setRunSessions: (tenantId, shares) => guard(() => writeRunSessions(redis, tenantId, shares)),
    async [Symbol.asyncDispose]() {
      tails.close()
      await replies.close()
    },
  }
}
