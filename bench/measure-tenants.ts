/**
 * 10,000 tenants with a few waiting executions each, half of them of weight 2, and one consumer that ends
 * everything at once: the order of starts, the memory in Redis, and Redis' time per execution.
 */
import { newWorkerId } from '@cofferdam/contract'
import { connectRedis, createConsumer } from '@cofferdam/queue'
import { openQueue, runOf } from './flood.ts'
import type { BenchContext, Measured } from './report.ts'
import { perSecond, ratesOf } from './rounds.ts'
import { sampleAttempt } from './sample-attempt.ts'
import { round } from './statistics.ts'

const TENANTS = 10_000
const SLOTS = 16
const SLICES = 5
const MIB = 1_048_576

export async function measureTenants(context: BenchContext): Promise<Record<string, Measured>> {
  await using queue = openQueue(context.fleet)
  await queue.empty()
  // Only a tenant's first two starts are measured, so two executions suffice for a quick run.
  const each = context.quick ? 2 : 3
  const all = TENANTS * each
  const weightOf = (n: number): number => 1 + (n % 2)
  const name = (n: number): string => `many-${n}`
  for (let first = 0; first < TENANTS; first += 100)
    await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        queue.producer.setTenantLimits(name(first + n), {
          weight: weightOf(first + n),
          concurrency: null,
          max_queued: null,
        }),
      ),
    )
  const emptyBytes = await queue.usedMemory()
  const startMicros = await queue.scriptMicros()
  // Enqueues all executions of one tenant, then all of the next. Serving them in order of arrival would be
  // unfair.
  await queue.flood(
    Array.from({ length: all }, (_, n) => runOf(name(Math.floor(n / each)), `agent-${n % each}`, 0)),
  )
  const fullBytes = await queue.usedMemory()
  const fullMicros = await queue.scriptMicros()
  const startedMs = performance.now()
  const { started, endedMs } = await drain(context, all)
  const overMicros = await queue.scriptMicros()
  await queue.passTime()
  const leftBytes = await queue.usedMemory()
  await queue.empty()

  const counts = new Map<string, number>()
  let early = 0
  const seconds2: number[] = []
  const seconds1: number[] = []
  for (const [place, tenant] of started.entries()) {
    const count = (counts.get(tenant) ?? 0) + 1
    counts.set(tenant, count)
    if (count > 1 && counts.size < TENANTS) early += 1
    if (count === 2) (weightOf(Number(tenant.slice(5))) === 2 ? seconds2 : seconds1).push(place)
  }
  const count = (value: number): Measured => ({ unit: 'count', value })
  const micros = (value: number): Measured => ({ unit: 'us', value: round(value) })
  return {
    'tenants.10000.served_again_before_all_were_served': count(early),
    'tenants.10000.second_start_of_weight_1_before_the_last_of_weight_2': count(
      seconds1.filter((place) => place < (seconds2.at(-1) ?? 0)).length,
    ),
    'tenants.10000.memory': { unit: 'MiB', value: round((fullBytes - emptyBytes) / MIB) },
    'tenants.10000.memory_left': { unit: 'MiB', value: round((leftBytes - emptyBytes) / MIB) },
    'tenants.10000.enqueue_cost': micros((fullMicros - startMicros) / all),
    'tenants.10000.run_cost': micros((overMicros - fullMicros) / all),
    'tenants.10000.runs': perSecond(ratesOf(startedMs, endedMs, SLICES)),
  }
}

/** Ends every execution that starts. Returns the tenants in the order of starts, and the time of each end. */
async function drain(
  { fleet }: BenchContext,
  expected: number,
): Promise<{ started: string[]; endedMs: number[] }> {
  const redis = connectRedis(fleet.redisUrl, 'worker')
  const subscriber = connectRedis(fleet.redisUrl, 'subscriber')
  const all = Promise.withResolvers<void>()
  const started: string[] = []
  const endedMs: number[] = []
  const consumer = createConsumer({
    redis,
    subscriber,
    workerId: newWorkerId('0123456789ab'),
    slots: SLOTS,
    lanes: ['interactive'],
    async process(taken) {
      const { tenant_id, agent_id } = taken.request
      started.push(tenant_id)
      await taken.settle(sampleAttempt(tenant_id, agent_id), { slotMs: 20 })
      endedMs.push(performance.now())
      if (endedMs.length === expected) all.resolve()
    },
    onOutbox: async () => undefined,
  })
  consumer.start()
  await all.promise
  await consumer.drain({ graceMs: 1000 })
  redis.disconnect()
  subscriber.disconnect()
  return { started, endedMs }
}
