import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { endWith, recordOf, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterAll(() => bench[Symbol.asyncDispose]())

/** Keys that stay for ever. Each has a bounded size. */
const STANDING = [
  '{cofferdam}:clock',
  '{cofferdam}:kinds',
  '{cofferdam}:limits',
  '{cofferdam}:offers',
  '{cofferdam}:outbox',
  '{cofferdam}:seq',
  '{cofferdam}:window',
  ...['interactive', 'routine'].flatMap((lane) =>
    ['events', 'id', 'marker', 'meta', 'stalled', 'pc'].map((part) => `{cofferdam}:${lane}:${part}`),
  ),
]

describe('the keys of the queue', () => {
  it('share one hash tag, and only the permanent ones remain after everything expired', async () => {
    const producer = bench.producer()
    await producer.setTenantLimits('t1', { weight: 2, concurrency: 3, max_queued: null })
    const attempts = new Map<string, number>()
    const consumer = bench.consumer({
      async process(taken) {
        const count = (attempts.get(taken.executionId) ?? 0) + 1
        attempts.set(taken.executionId, count)
        if (count === 1 && taken.request.agent_id === 'deferred') return taken.defer(Date.now() + 50, 'cap')
        if (count === 1 && taken.request.agent_id === 'given') return taken.giveBack()
        await taken.begin(sandboxRef(), SANDBOX_INFO)
        taken.emit({ type: 'output', at_ms: 1, stream: 'stdout', text: 'x' })
        if (count === 1 && taken.request.agent_id === 'retried')
          return taken.retry(recordOf(taken, 'sandbox_lost'), { slotMs: 1, outbox: true })
        await endWith('ok')(taken)
      },
    })
    const agents = ['plain', 'deferred', 'given', 'retried']
    const accepted = await Promise.all(
      Array.from({ length: 80 }, (_, n) =>
        producer.put(
          requestOf({
            tenant_id: `t${n % 5}`,
            agent_id: agents[n % 4]!,
            lane: n % 3 === 0 ? 'routine' : 'interactive',
            ...(n % 5 === 1 ? { session: { key: `s${n % 3}` } } : {}),
            ...(n % 7 === 0 ? { idempotency_key: `k${n}` } : {}),
            ...(n % 11 === 0 ? { delay_ms: 100 } : {}),
            ...(n % 13 === 0 ? { stdin: 'z'.repeat(20_000) } : {}),
          }),
          { awaitReply: true },
        ),
      ),
    )
    const cancelled = await producer.put(requestOf({ delay_ms: 60_000 }), { awaitReply: true })
    await producer.cancel(cancelled.execution_id)
    for (const { execution_id } of [...accepted, cancelled])
      expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).not.toBeNull()
    const { execution_id } = accepted[0]!
    for await (const _ of producer.events(execution_id, { signal: AbortSignal.timeout(30_000) })) continue
    await vi.waitFor(async () => expect((await producer.stats()).outbox).toBe(0), 20_000)
    await consumer.drain({ graceMs: 1000 })

    const keys = await bench.redis.keys('*')
    expect(keys.filter((key) => !key.startsWith('{cofferdam}:'))).toEqual([])
    for (const key of keys) if ((await bench.redis.pttl(key)) > 0) await bench.redis.del(key)
    const remaining = await bench.redis.keys('*')
    expect(remaining.filter((key) => !STANDING.includes(key))).toEqual([])
    expect(await bench.redis.hkeys('{cofferdam}:limits')).toEqual(['t1'])
    for (const lane of ['interactive', 'routine'])
      expect(await bench.redis.xlen(`{cofferdam}:${lane}:events`)).toBeLessThanOrEqual(300)
  })
})
