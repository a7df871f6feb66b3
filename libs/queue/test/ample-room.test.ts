import { afterAll, beforeAll, expect, it } from 'vitest'
import { requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterAll(() => bench[Symbol.asyncDispose]())

it('a worker with ample memory takes several executions at once but never too many', async () => {
  const producer = bench.producer()
  // The large source is stored outside the record, so the worker fetches it after the take.
  const source = '#'.repeat(40_000)
  const large = requestOf({ program: { type: 'script', language: 'python', source } })
  await Promise.all(Array.from({ length: 64 }, () => producer.put(large)))
  const most = 16
  let taken = 0
  const held = Promise.withResolvers<void>()
  bench.consumer({
    slots: 64,
    lanes: ['interactive'],
    room: { isFree: () => taken < most, isAmple: () => taken <= most / 2, onChange: () => undefined },
    async process(one) {
      taken += 1
      await held.promise
      await one.giveBack()
    },
  })
  await expect.poll(() => taken, { timeout: 20_000 }).toBeGreaterThanOrEqual(most)
  expect(taken).toBe(most)
  held.resolve()
})
