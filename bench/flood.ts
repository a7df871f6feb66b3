/** What the fairness phases share: executions of given lengths on `fake`, and what the audit rows say of them after. */
import { createProducer, connectRedis, type Producer } from '@cofferdam/queue'
import { executionRequestSchema, type AuditRow, type ExecutionRequest } from '@cofferdam/contract'
import type { Store } from '@cofferdam/store'
import type { Fleet } from '../tests/fleet.ts'

/** Enqueues on their way at once: what keeps a producer busy and its memory small. */
const IN_FLIGHT = 200

export interface FloodedQueue extends AsyncDisposable {
  producer: Producer
  /** Enqueues all, in about their order; resolves with the time at which each was there (`performance.now`). */
  flood(requests: Iterable<ExecutionRequest>): Promise<number[]>
  /** `INFO memory`'s used_memory, bytes. */
  usedMemory(): Promise<number>
  /** Microseconds that Redis spent in scripts so far. */
  scriptMicros(): Promise<number>
  /** As if everything that expires had: ended executions go, and the outbox was drained. */
  passTime(): Promise<void>
  /** Forgets everything that waits; no worker may run. */
  empty(): Promise<void>
}

export function openQueue(fleet: Fleet): FloodedQueue {
  // Of the patient role: a producer's connection refuses what comes before it stands.
  const redis = connectRedis(fleet.redisUrl, 'worker')
  const producing = connectRedis(fleet.redisUrl, 'producer')
  const subscriber = connectRedis(fleet.redisUrl, 'subscriber')
  const producer = createProducer({ redis: producing, subscriber })
  return {
    producer,
    async flood(requests) {
      const source = requests[Symbol.iterator]()
      const putMs: number[] = []
      await Promise.all(
        Array.from({ length: IN_FLIGHT }, async () => {
          for (let next = source.next(); next.done !== true; next = source.next()) {
            await producer.put(next.value)
            putMs.push(performance.now())
          }
        }),
      )
      return putMs
    },
    async usedMemory() {
      return Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1])
    },
    async scriptMicros() {
      return Number(/cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0)
    },
    async passTime() {
      let cursor = '0'
      do {
        const [next, keys] = await redis.scan(cursor, 'COUNT', 1000)
        cursor = next
        const reading = redis.pipeline()
        for (const key of keys) reading.pttl(key)
        const ttls = (await reading.exec()) ?? []
        const ending = keys.filter((_, index) => Number(ttls[index]?.[1]) > 0)
        if (ending.length > 0) await redis.unlink(ending)
      } while (cursor !== '0')
      await redis.del('{cofferdam}:outbox')
    },
    async empty() {
      await redis.flushall()
    },
    async [Symbol.asyncDispose]() {
      await producer[Symbol.asyncDispose]()
      redis.disconnect()
      producing.disconnect()
      subscriber.disconnect()
    },
  }
}

/** A program of `fake` that holds its slot for `ms`. */
export function runOf(tenantId: string, agentId: string, ms: number): ExecutionRequest {
  return executionRequestSchema.parse({
    tenant_id: tenantId,
    agent_id: agentId,
    backend: 'fake',
    program: { type: 'script', language: 'python', source: ms === 0 ? '' : JSON.stringify({ sleep_ms: ms }) },
  })
}

export interface Ran {
  id: string
  tenant: string
  agent: string
  enqueuedMs: number
  startedMs: number
  slotMs: number
}

/** Every attempt recorded behind `cursor`, by start. */
export async function ranSince(store: Store, cursor: string): Promise<Ran[]> {
  const rows: AuditRow[] = []
  for (let after = cursor; ;) {
    const page = await store.feed({ tenantId: null, after, limit: 500 })
    rows.push(...page.rows)
    after = page.cursor
    if (page.drained) break
  }
  return rows
    .map((row) => {
      const startedMs = Date.parse(row.started_at)
      return {
        id: row.execution_id,
        tenant: row.tenant_id,
        agent: row.agent_id,
        startedMs,
        enqueuedMs: startedMs - row.queue_ms,
        slotMs: Date.parse(row.finished_at) - startedMs,
      }
    })
    .toSorted((a, b) => a.startedMs - b.startedMs)
}

/** The cursor of now, for `ranSince`. */
export const now = async (store: Store): Promise<string> =>
  (await store.feed({ tenantId: null, after: 'now', limit: 1 })).cursor

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
export const mean = (values: readonly number[]): number => sum(values) / values.length
