import { afterAll, beforeAll, expect, it } from 'vitest'
import { QUEUE_BOUNDS } from '../src/bounds.ts'
import { requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterAll(() => bench[Symbol.asyncDispose]())

it('every waiter hears of the end, however many wait in one process', async () => {
  const producer = bench.producer()
  const count = QUEUE_BOUNDS.unclaimedReplies + 50
  const accepted = await Promise.all(Array.from({ length: count }, () => producer.put(requestOf())))
  const waiting = accepted.map(({ execution_id }) => producer.wait(execution_id, { timeoutMs: 40_000 }))
  // Wait until all are registered, so that none gets its answer from its first look at the state.
  await expect
    .poll(async () => (await bench.redis.keys('{cofferdam}:w:*')).length, { timeout: 20_000 })
    .toBe(count)
  bench.consumer({ slots: 32 })
  const results = await Promise.all(waiting)
  expect(results.filter((result) => result?.ok !== true)).toEqual([])
})
