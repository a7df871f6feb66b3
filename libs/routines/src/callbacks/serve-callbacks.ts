/**
 * Posts results to the `callback_url` of their executions.
 *
 *   execution ends ─► (in the same script) an entry in `callbacks-due` ─► a BullMQ job per execution ─► POST
 *     2xx ─► delivered        410, or an address that is not public ─► failed
 *     anything else ─► retried after 5 s, 10 s, 20 s … up to an hour, each ± half, for a day; then failed
 *
 * Delivers at least once. Receivers detect repetitions by `webhook-id`, the execution's ID. One tenant may
 * use only a part of the connections, so that its slow receiver does not delay others.
 */
import { createHmac } from 'node:crypto'
import { executionIdSchema, type CallbackStatus, type ExecutionId } from '@cofferdam/contract'
import { egressConfigSchema, type JudgedDial } from '@cofferdam/egress'
import { cellOf, keysOf, type Producer } from '@cofferdam/queue'
import type { Store } from '@cofferdam/store'
import { DelayedError, Queue, UnrecoverableError, Worker, type Job } from 'bullmq'
import type { Redis } from 'ioredis'
import { z } from 'zod'
import { closeWithin, inRounds } from '../in-rounds.ts'
import { writeCallbackStatus } from './callback-status.ts'
import { postOnce, type Posted } from './post-once.ts'

/** Settings of callbacks: which private addresses they may reach. */
export const callbacksConfigSchema = z.strictObject({
  private_allow: egressConfigSchema.shape.private_allow.describe(
    '`CIDR` or `CIDR:port` of receivers in the operator’s own network. Never filled from a tenant’s data.',
  ),
})
export type CallbacksConfig = z.output<typeof callbacksConfigSchema>

const NAME = 'callbacks'
const COLLECT_MS = 1000
/** Entries read at once. */
const BATCH = 100
/** Concurrent posts. Each has a socket and one result (at most 8 MiB of text) in memory. */
const AT_ONCE = 16
const AT_ONCE_PER_TENANT = 4
/** Delay for a tenant that uses all its connections. */
const BUSY_MS = 500
/** Long enough that no worker with an old list of entries adds a delivered callback again. */
const DONE_KEPT_S = 3600

export interface CallbackTiming {
  firstMs: number
  maxMs: number
  giveUpMs: number
  collectMs: number
}
const TIMING: CallbackTiming = {
  firstMs: 5000,
  maxMs: 3_600_000,
  giveUpMs: 24 * 3_600_000,
  collectMs: COLLECT_MS,
}

export interface CallbackDeps {
  /** Connection of role `worker`, which BullMQ duplicates for blocking reads. Not closed. */
  redis: Redis
  producer: Pick<Producer, 'get'>
  store: Pick<Store, 'findExecution' | 'callbackSecrets'>
  dial: JudgedDial
  onError: (error: unknown) => void
  timing?: Partial<CallbackTiming>
}

interface Call {
  tenant: string
  url: string
}

/** Collects and posts callbacks until disposed. Another worker repeats those in flight at that moment. */
export function serveCallbacks(deps: CallbackDeps): AsyncDisposable {
  const { redis, onError } = deps
  const timing = { ...TIMING, ...deps.timing }
  const queue = new Queue(NAME, {
    connection: redis,
    prefix: cellOf(redis).tag,
    skipVersionCheck: true,
    streams: { events: { maxLen: 100 } },
  })
  queue.on('error', onError)
  const stopping = new AbortController()
  const underWay = new Map<string, number>()
  const worker = new Worker<Call>(NAME, (job, token) => inShare(job, token ?? ''), {
    connection: redis,
    prefix: cellOf(redis).tag,
    skipVersionCheck: true,
    concurrency: AT_ONCE,
    // Longer than the longest post.
    lockDuration: 60_000,
    maxStalledCount: 1_000_000,
    settings: { backoffStrategy: (attempts) => delayAfter(attempts, timing) },
  })
  worker.on('error', onError)

  async function inShare(job: Job<Call>, token: string): Promise<void> {
    const { tenant } = job.data
    const running = underWay.get(tenant) ?? 0
    if (running >= AT_ONCE_PER_TENANT) {
      await job.moveToDelayed(Date.now() + BUSY_MS * (1 + Math.random()), token)
      throw new DelayedError()
    }
    underWay.set(tenant, running + 1)
    try {
      await deliver(job)
    } finally {
      const left = (underWay.get(tenant) ?? 1) - 1
      if (left === 0) underWay.delete(tenant)
      else underWay.set(tenant, left)
    }
  }

  async function deliver(job: Job<Call>): Promise<void> {
    const id = executionIdSchema.parse(job.id)
    const attempts = job.attemptsMade + 1
    const posted = await post(id, job.data)
    const isLate = Date.now() - job.timestamp + timing.firstMs > timing.giveUpMs
    const state: CallbackStatus['state'] = posted.ok
      ? 'delivered'
      : posted.final || isLate
        ? 'failed'
        : 'sending'
    const last_error = posted.ok ? null : posted.error.slice(0, 500)
    await writeCallbackStatus(redis, id, { state, attempts, last_status: posted.status, last_error })
    if (posted.ok) return
    throw state === 'failed' ? new UnrecoverableError(posted.error) : new Error(posted.error)
  }

  async function post(id: ExecutionId, { tenant, url }: Call): Promise<Posted> {
    const result =
      (await deps.producer.get(id))?.result ?? (await deps.store.findExecution(tenant, id))?.result ?? null
    if (result === null)
      return { ok: false, status: null, error: 'the result is no longer stored', final: false }
    const keys = await deps.store.callbackSecrets.read(tenant, Date.now())
    if (keys.length === 0)
      return { ok: false, status: null, error: 'the tenant has no callback secret', final: false }
    const body = JSON.stringify(result)
    return await postOnce(
      deps.dial,
      new URL(url),
      body,
      signedHeaders(keys, { id, atMs: Date.now(), body }),
      stopping.signal,
    )
  }

  async function collect(): Promise<void> {
    for (;;) {
      const lines = await redis.lrange(keysOf(redis).callbacksDue, 0, BATCH - 1)
      for (const line of lines) {
        const [id = '', tenant = '', url = ''] = line.split(' ')
        await queue.add(
          'post',
          { tenant, url },
          {
            jobId: id,
            // The retries end after a time (`giveUpMs`), not after a number of attempts.
            attempts: 10_000,
            backoff: { type: 'custom' },
            removeOnComplete: { age: DONE_KEPT_S },
            removeOnFail: { age: DONE_KEPT_S },
          },
        )
        await redis.lrem(keysOf(redis).callbacksDue, 1, line)
      }
      if (lines.length < BATCH) return
    }
  }

  const rounds = inRounds(() => collect().catch(onError), timing.collectMs)
  return {
    async [Symbol.asyncDispose]() {
      stopping.abort()
      await rounds[Symbol.asyncDispose]()
      await closeWithin(worker.close())
      await closeWithin(queue.close())
    },
  }
}

/** Doubles each time, ± half, so that a recovered receiver does not get all retries at once. */
function delayAfter(attempts: number, { firstMs, maxMs }: CallbackTiming): number {
  const base = Math.min(firstMs * 2 ** Math.min(attempts - 1, 30), maxMs)
  return Math.round(base * (0.5 + Math.random()))
}

/**
 * Headers of one delivery in Standard Webhooks 1.0: base64 HMAC-SHA256 of `id.timestamp.body` after `v1,`.
 * During a change of the secret, both secrets sign.
 */
function signedHeaders(
  keys: readonly Uint8Array[],
  message: { id: string; atMs: number; body: string },
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  const timestamp = String(Math.floor(message.atMs / 1000))
  const text = `${message.id}.${timestamp}.${message.body}`
  const signatures = keys.map((key) => `v1,${createHmac('sha256', key).update(text).digest('base64')}`)
  return {
    'webhook-id': message.id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  }
}
