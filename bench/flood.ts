/** Shared by the queue phases: executions of given lengths on `fake`, and their audit rows. */
import { createProducer, connectRedis, type Producer } from '@cofferdam/queue'
import { executionRequestSchema, type AuditRow, type ExecutionRequest } from '@cofferdam/contract'
import type { Store } from '@cofferdam/store'
import type { Fleet } from '../tests/fleet.ts'

/** Concurrent enqueues: they keep a producer busy with little memory. */
const IN_FLIGHT = 200

export interface FloodedQueue extends AsyncDisposable {
  producer: Producer
  /** Enqueues all, roughly in order. Resolves with the time of each enqueue (`performance.now`). */
  flood(requests: Iterable<ExecutionRequest>): Promise<number[]>
  /** `used_memory` of `INFO memory`, in bytes. */
  usedMemory(): Promise<number>
  /** Microseconds that Redis has spent in scripts so far. */
  scriptMicros(): Promise<number>
  /** Deletes every key that expires, and the outbox, as if enough time had passed. */
  passTime(): Promise<void>
  /** Deletes everything in Redis. No worker may run. */
  empty(): Promise<void>
}

export function openQueue(fleet: Fleet): FloodedQueue {
  // Role worker, because a producer's connection refuses commands before it is connected.
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

/** An execution on `fake` that uses its slot for `ms`. */
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

/** Every attempt recorded after `cursor`, in the order of their starts. */
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

/** The current cursor, for `ranSince`. */
export const now = async (store: Store): Promise<string> =>
  (await store.feed({ tenantId: null, after: 'now', limit: 1 })).cursor

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
export const mean = (values: readonly number[]): number => sum(values) / values.length
