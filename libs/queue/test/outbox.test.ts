import type { AttemptRecord } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { recordOf, requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

const settleThroughOutbox = {
  process: (taken: Parameters<typeof recordOf>[0]) =>
    taken.settle(recordOf(taken, 'ok'), { slotMs: 1, outbox: true }),
}

describe('the outbox', () => {
  it('keeps records until a worker can hand them to the store', async () => {
    const producer = bench.producer()
    const away = vi.fn(() => Promise.reject(new Error('Postgres is away')))
    const first = bench.consumer({ ...settleThroughOutbox, onOutbox: away })
    const ids = new Set<string>()
    for (let n = 0; n < 30; n += 1) {
      const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
      ids.add(execution_id)
      expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
    }
    await vi.waitFor(() => expect(away).toHaveBeenCalled(), 20_000)
    expect((await producer.stats()).outbox).toBe(30)
    await first.drain({ graceMs: 0 })
    const stored: string[] = []
    bench.consumer({
      onOutbox: async (records) => void stored.push(...records.map(({ audit }) => audit.execution_id)),
    })
    await vi.waitFor(async () => expect((await producer.stats()).outbox).toBe(0), 20_000)
    expect(new Set(stored)).toEqual(ids)
    expect(stored).toHaveLength(30)
  })

  it('stores all other records if one record cannot be stored', async () => {
    const producer = bench.producer()
    const stored = new Set<string>()
    let isPoisonous = true
    bench.consumer({
      ...settleThroughOutbox,
      async onOutbox(records: AttemptRecord[]) {
        // The record is found by its agent, because it may arrive before its put is answered.
        if (isPoisonous && records.some(({ audit }) => audit.agent_id === 'poison'))
          throw new Error('cannot be stored')
        for (const { audit } of records) stored.add(audit.execution_id)
      },
    })
    await producer.put(requestOf({ agent_id: 'poison' }), { awaitReply: true })
    const others = await Promise.all(Array.from({ length: 25 }, () => producer.put(requestOf())))
    await vi.waitFor(() => expect(stored.size).toBe(25), 20_000)
    expect([...stored].toSorted()).toEqual(others.map(({ execution_id }) => execution_id).toSorted())
    await vi.waitFor(async () => expect((await producer.stats()).outbox).toBe(1), 20_000)
    isPoisonous = false
    await vi.waitFor(async () => expect((await producer.stats()).outbox).toBe(0), 20_000)
  })
})
