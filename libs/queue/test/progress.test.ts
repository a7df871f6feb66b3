import { afterAll, beforeAll, expect, it } from 'vitest'
import { gate, recordOf, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterAll(() => bench[Symbol.asyncDispose]())

it('progress is a live event, and the state shows the latest one, also after the end', async () => {
  const told = gate()
  const producer = bench.producer()
  bench.consumer({
    process: async (taken) => {
      await taken.begin(sandboxRef(), SANDBOX_INFO)
      taken.emit({ type: 'progress', at_ms: 1, fraction: 0.25, message: 'loading' })
      taken.emit({ type: 'progress', at_ms: 2000, fraction: 0.5, message: 'fit "ting"' })
      await told.opened
      await taken.settle(recordOf(taken), { slotMs: 1 })
    },
  })
  const { execution_id: id } = await producer.put(requestOf({ lane: 'routine' }))
  const seen: unknown[] = []
  for await (const { event } of producer.events(id, { signal: AbortSignal.timeout(30_000) })) {
    if (event.type === 'progress') seen.push([event.fraction, event.message])
    if (seen.length < 2 || event.type === 'ended') continue
    const progress = { fraction: 0.5, message: 'fit "ting"', at: '1970-01-01T00:00:02.000Z' }
    expect(await producer.get(id)).toMatchObject({ status: 'running', progress })
    told.open()
  }
  expect(seen).toEqual([
    [0.25, 'loading'],
    [0.5, 'fit "ting"'],
  ])
  expect(await producer.get(id)).toMatchObject({ status: 'ended', progress: { fraction: 0.5 } })
})
