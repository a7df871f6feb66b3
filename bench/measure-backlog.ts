/**
 * Executions that wait in Redis without a worker: their memory with a program of 1 KB, the enqueue rate, and
 * the memory left after their end. Then Redis' own time per execution with 10 and with 10,000 tenants.
 */
import { newWorkerId } from '@cofferdam/contract'
import { connectRedis, createConsumer } from '@cofferdam/queue'
import { openQueue, runOf, type FloodedQueue } from './flood.ts'
import { interleave, perSecond, ratesOf } from './rounds.ts'
import type { BenchContext, Measured } from './report.ts'
import { sampleAttempt } from './sample-attempt.ts'
import { round, summarise } from './statistics.ts'

const MIB = 1_048_576
const FULL = 100_000
const SLICES = 5
const PROGRAM = `# ${'x'.repeat(1022)}`

export async function measureBacklog(context: BenchContext): Promise<Record<string, Measured>> {
  await using queue = openQueue(context.fleet)
  await queue.empty()
  const memory = await memoryOfBacklog(context, queue)
  const few = await costPerCall(context, queue, 10)
  const many = await costPerCall(context, queue, 10_000)
  await queue.empty()
  return {
    ...memory,
    'backlog.enqueue_cost.10_tenants': { unit: 'us', value: round(few.enqueue) },
    'backlog.enqueue_cost.10000_tenants': { unit: 'us', value: round(many.enqueue) },
    'backlog.run_cost.10_tenants': { unit: 'us', value: round(few.run) },
    'backlog.run_cost.10000_tenants': { unit: 'us', value: round(many.run) },
    'backlog.stats.10000_tenants': { unit: 'ms', summary: summarise(many.statsMs) },
    'backlog.live_page.10000_tenants': { unit: 'ms', summary: summarise(many.pageMs) },
  }
}

async function memoryOfBacklog(
  context: BenchContext,
  queue: FloodedQueue,
): Promise<Record<string, Measured>> {
  const count = context.quick ? FULL / 10 : FULL
  const tenants = Array.from({ length: 10 }, (_, n) => `deep-${n}`)
  for (const tenant of tenants)
    await queue.producer.setTenantLimits(tenant, { weight: 1, concurrency: 1000, max_queued: count })
  const before = await queue.usedMemory()
  const startedMs = performance.now()
  const putMs = await queue.flood(requests(count, tenants))
  const grown = (await queue.usedMemory()) - before
  for (const tenant of tenants) {
    let next: string | null | undefined
    while (next !== null)
      ({ next } = await queue.producer.cancelTenant(tenant, {
        state: 'all',
        reason: 'bench',
        ...(next === undefined ? {} : { before: next }),
      }))
  }
  const ended = (await queue.usedMemory()) - before
  await queue.passTime()
  const left = (await queue.usedMemory()) - before
  return {
    'backlog.memory_of_100000': { unit: 'MiB', value: round((grown / count / MIB) * FULL) },
    'backlog.memory_of_100000_cancelled': { unit: 'MiB', value: round((ended / count / MIB) * FULL) },
    'backlog.memory_left': { unit: 'MiB', value: round(left / MIB) },
    'backlog.enqueue': perSecond(ratesOf(startedMs, putMs, SLICES)),
  }
}

function* requests(count: number, tenants: readonly string[]) {
  for (let n = 0; n < count; n += 1) {
    const request = runOf(tenants[n % tenants.length] ?? '', `agent-${n % 50}`, 0)
    yield { ...request, program: { type: 'script' as const, language: 'python' as const, source: PROGRAM } }
  }
}

/** Redis' own time in microseconds: per enqueue, and per execution between its enqueue and its end. */
async function costPerCall(
  context: BenchContext,
  queue: FloodedQueue,
  tenantCount: number,
): Promise<{ enqueue: number; run: number; statsMs: number[]; pageMs: number[] }> {
  await queue.empty()
  const count = 10_000
  const tenants = Array.from({ length: tenantCount }, (_, n) => `wide-${n}`)
  const start = await queue.scriptMicros()
  await queue.flood(requests(count, tenants))
  const enqueued = await queue.scriptMicros()
  const calls = await interleave(
    [
      { name: 'stats', run: () => queue.producer.stats() },
      { name: 'page', run: () => queue.producer.livePage(null, { limit: 50 }) },
    ],
    20,
  )
  const looked = await queue.scriptMicros()
  const ran = await drainSome(context, context.quick ? 1000 : 8000)
  const over = await queue.scriptMicros()
  return {
    enqueue: (enqueued - start) / count,
    run: (over - looked) / ran,
    statsMs: calls.get('stats') ?? [],
    pageMs: calls.get('page') ?? [],
  }
}

/** Runs a consumer in this process that ends every execution at once, until `count` have ended. */
async function drainSome({ fleet }: BenchContext, count: number): Promise<number> {
  const redis = connectRedis(fleet.redisUrl, 'worker')
  const subscriber = connectRedis(fleet.redisUrl, 'subscriber')
  const enough = Promise.withResolvers<void>()
  let ran = 0
  const consumer = createConsumer({
    redis,
    subscriber,
    workerId: newWorkerId('0123456789ab'),
    slots: 16,
    lanes: ['interactive'],
    async process(taken) {
      const { tenant_id, agent_id } = taken.request
      await taken.settle(sampleAttempt(tenant_id, agent_id), { slotMs: 1 })
      ran += 1
      if (ran >= count) enough.resolve()
    },
    onOutbox: async () => undefined,
  })
  consumer.start()
  await enough.promise
  await consumer.drain({ graceMs: 1000 })
  redis.disconnect()
  subscriber.disconnect()
  return ran
}
