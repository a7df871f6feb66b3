/** What reading 10,000 tenants costs the server: how many calls, and how much each call does. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

const TENANTS = 10_100

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
  const producer = bench.producer()
  // 100 at a time: with thousands a slow machine would miss the time limit for Redis's answers.
  for (let from = 0; from < TENANTS; from += 100)
    await Promise.all(
      Array.from({ length: 100 }, (_, n) => producer.put(requestOf({ tenant_id: `tenant-${from + n}` }))),
    )
}, 300_000)
afterAll(() => bench[Symbol.asyncDispose]())

/** Calls of each command since `CONFIG RESETSTAT`. */
async function callsByCommand(): Promise<Map<string, number>> {
  const lines = (await bench.redis.info('commandstats')).matchAll(/cmdstat_([\w|]+):calls=(\d+)/g)
  return new Map([...lines].map(([, name = '', calls]) => [name, Number(calls)]))
}

it('reads 10,000 tenants in calls of 100, and says that there are more', async () => {
  const producer = bench.producer()
  await bench.redis.config('RESETSTAT')
  const snapshot = await producer.tenants()
  const stats = await callsByCommand()
  expect(snapshot.complete).toBe(false)
  expect(snapshot.tenants).toHaveLength(10_000)
  expect(new Set(snapshot.tenants.map(({ tenantId }) => tenantId)).size).toBe(10_000)
  const calls = (name: string) => stats.get(name) ?? 0
  // One extra page of names shows that there are more tenants than fit.
  expect(calls('zrangebylex')).toBeLessThanOrEqual(12)
  expect(calls('evalsha') + calls('eval')).toBeLessThanOrEqual(101)
  // For each tenant: its counters, its limits, and its score in two rings (the fair orders). If its runs are
  // long, also the window.
  const inside = ['hmget', 'hget', 'zscore'].reduce((sum, name) => sum + calls(name), 0)
  expect(inside).toBeLessThanOrEqual(10_000 * 8)
})

it('finds the oldest waiting execution of 500 tenants in 5 calls', async () => {
  const producer = bench.producer()
  await bench.redis.config('RESETSTAT')
  const names = Array.from({ length: 500 }, (_, n) => `tenant-${n}`)
  expect((await producer.oldestWaiting(names)).size).toBe(500)
  const stats = await callsByCommand()
  expect((stats.get('evalsha') ?? 0) + (stats.get('eval') ?? 0)).toBeLessThanOrEqual(6)
  expect(stats.get('zmscore')).toBe(1000)
})
