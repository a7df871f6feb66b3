import { CofferdamError, newExecutionId, type StoredEvent } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { endWith, recordOf, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

describe('an execution', () => {
  it('runs from put to its result, with its live events in order', async () => {
    const producer = bench.producer()
    bench.consumer({
      async process(taken) {
        await taken.begin(sandboxRef(), SANDBOX_INFO)
        taken.emit({ type: 'output', at_ms: 1, stream: 'stdout', text: 'hel' })
        taken.emit({ type: 'output', at_ms: 1, stream: 'stdout', text: 'lo' })
        taken.emit({ type: 'output', at_ms: 1, stream: 'stderr', text: 'oh' })
        await taken.settle(recordOf(taken, 'ok', 'hello'), { slotMs: 5 })
      },
    })
    const accepted = await producer.put(requestOf(), { awaitReply: true })
    const result = await producer.wait(accepted.execution_id, { timeoutMs: 30_000 })
    expect(result).toMatchObject({ ok: true, ending: 'ok', stdout: 'hello', attempt: 1 })

    const events: StoredEvent[] = []
    for await (const event of producer.events(accepted.execution_id, { signal: AbortSignal.timeout(30_000) }))
      events.push(event)
    expect(events.map(({ event }) => event.type)).toEqual(['queued', 'started', 'output', 'output', 'ended'])
    expect(events[2]?.event).toMatchObject({ stream: 'stdout', text: 'hello' })
    expect(events[4]?.event).toMatchObject({ attempt: 1, ending: 'ok', exit_status: 'ok' })
    const state = await producer.get(accepted.execution_id)
    expect(state).toMatchObject({ status: 'ended', attempt: 1, position: null, result: { stdout: 'hello' } })
  })

  it('with an unknown ID is null for get, and not_found for wait and for events', async () => {
    const producer = bench.producer()
    const id = newExecutionId()
    expect(await producer.get(id)).toBeNull()
    expect(await producer.request(id)).toBeNull()
    expect(await producer.cancel(id)).toBe('not_found')
    await expect(producer.wait(id, { timeoutMs: 30_000 })).rejects.toMatchObject({ code: 'not_found' })
    const follow = async () => {
      for await (const _ of producer.events(id, { signal: AbortSignal.timeout(30_000) })) continue
    }
    await expect(follow()).rejects.toMatchObject({ code: 'not_found' })
  })

  it('waits in the backlog while there is no worker, and reports its position', async () => {
    const producer = bench.producer()
    const first = await producer.put(requestOf())
    const second = await producer.put(requestOf())
    expect(first).toMatchObject({ status: 'queued', position: 0, eta_ms: null, deduplicated: false })
    expect(second).toMatchObject({ status: 'queued', position: 1 })
    expect((await producer.stats()).lanes.interactive).toMatchObject({ queued: 2, running: 0, window: 0 })
    expect((await producer.live('acme', 10)).map((s) => s.execution_id)).toEqual([
      second.execution_id,
      first.execution_id,
    ])
    bench.consumer()
    expect(await producer.wait(second.execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
    await vi.waitFor(async () => expect(await producer.live('acme', 10)).toEqual([]), 20_000)
  })

  it('stores large parts of its request outside its record, and the worker gets them whole', async () => {
    const producer = bench.producer()
    const source = `print("${'ä'.repeat(20_000)}")`
    const files = [
      { path: 'a.txt', content: 'x'.repeat(300_000) },
      { path: 'b.txt', content: 'x'.repeat(300_000) },
      ...Array.from({ length: 20 }, (_, n) => ({ path: `small-${n}.txt`, content: `${n}`.repeat(8000) })),
    ]
    const request = requestOf({ program: { type: 'script', language: 'python', source }, files })
    const { execution_id } = await producer.put(request)
    expect((await bench.redis.hget(`{cofferdam}:x:${execution_id}`, 'req'))?.length).toBeLessThan(1000)
    // The source, one copy of the two equal files, and the rest of the request.
    expect(await bench.redis.keys('{cofferdam}:blob:*')).toHaveLength(3)
    // The stored request has its default reuse scope filled in.
    const stored = { ...request, reuse: 'job' }
    expect(await producer.request(execution_id)).toEqual(stored)
    const seen = vi.fn()
    bench.consumer({
      async process(taken) {
        seen(taken.request)
        await endWith('ok')(taken)
      },
    })
    await producer.wait(execution_id, { timeoutMs: 30_000 })
    expect(seen).toHaveBeenCalledWith(stored)
  })

  it('ends with provisioning and a record for the store if parts of its request are gone', async () => {
    const producer = bench.producer()
    const { execution_id } = await producer.put(requestOf({ stdin: 'y'.repeat(50_000) }))
    await bench.redis.del(await bench.redis.keys('{cofferdam}:blob:*'))
    const onOutbox = vi.fn(async () => undefined)
    bench.consumer({ onOutbox })
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({
      ending: 'provisioning',
      reason: 'request_lost',
    })
    await vi.waitFor(() => expect(onOutbox).toHaveBeenCalled(), 20_000)
  })

  it('does not run before its delay is over', async () => {
    const producer = bench.producer()
    const putAtMs = Date.now()
    const accepted = await producer.put(requestOf({ delay_ms: 400 }), { awaitReply: true })
    expect(accepted).toMatchObject({ status: 'delayed', position: null, eta_ms: 400 })
    expect(await producer.get(accepted.execution_id)).toMatchObject({ status: 'delayed', attempt: 0 })
    // The consumer starts only now: without a worker the execution surely stays delayed until here.
    bench.consumer()
    await producer.wait(accepted.execution_id, { timeoutMs: 30_000 })
    expect(Date.now() - putAtMs).toBeGreaterThanOrEqual(399)
  })

  it('runs in both lanes, and routine uses at most half of the slots', async () => {
    const producer = bench.producer()
    const most = { interactive: 0, routine: 0 }
    const now = { interactive: 0, routine: 0 }
    const puts = Array.from({ length: 40 }, (_, n) =>
      producer.put(requestOf({ lane: n % 2 === 0 ? 'interactive' : 'routine' }), { awaitReply: true }),
    )
    const accepted = await Promise.all(puts)
    bench.consumer({
      async process(taken) {
        now[taken.lane] += 1
        most[taken.lane] = Math.max(most[taken.lane], now[taken.lane])
        await new Promise((resolve) => setTimeout(resolve, 5))
        now[taken.lane] -= 1
        await endWith('ok')(taken)
      },
    })
    for (const { execution_id } of accepted)
      expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
    expect(most.routine).toBeLessThanOrEqual(2)
    expect(most.interactive).toBeLessThanOrEqual(4)
  })

  it('is refused with queue_unavailable when Redis is away', async () => {
    const { createProducer, connectRedis } = await import('../src/index.ts')
    const url = 'unix:///nonexistent/redis.sock'
    const redis = connectRedis(url, 'producer')
    const subscriber = connectRedis(url, 'subscriber')
    const producer = createProducer({ redis, subscriber })
    await expect(producer.put(requestOf())).rejects.toSatisfy(
      (error) => error instanceof CofferdamError && error.code === 'queue_unavailable',
    )
    redis.disconnect()
    subscriber.disconnect()
    await producer[Symbol.asyncDispose]()
  })
})
