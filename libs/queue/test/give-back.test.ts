import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Taken } from '../src/index.ts'
import { KEYS } from '../src/testing.ts'
import { endWith, gate, recordOf, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

const aborted = (taken: Taken): Promise<unknown> =>
  new Promise((resolve) => taken.signal.addEventListener('abort', resolve))

describe('drain', () => {
  it('lets running executions finish within the grace period and takes no new ones', async () => {
    const producer = bench.producer()
    const taken = gate()
    const release = gate()
    const consumer = bench.consumer({
      slots: 1,
      async process(one) {
        taken.open()
        await release.opened
        await endWith('ok')(one)
      },
    })
    const first = await producer.put(requestOf(), { awaitReply: true })
    const second = await producer.put(requestOf())
    await taken.opened
    const drained = consumer.drain({ graceMs: 60_000 })
    release.open()
    await drained
    expect(await producer.wait(first.execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
    expect(await producer.get(second.execution_id)).toMatchObject({
      status: 'queued',
      attempt: expect.any(Number),
    })
    expect((await producer.stats()).workers).toEqual([])
    expect(consumer.running).toBe(0)
  })

  it.each([
    ['gives it back itself', (one: Taken) => one.giveBack()],
    ['just returns', () => Promise.resolve()],
    ['throws', () => Promise.reject(new Error('stopped'))],
  ])(
    'gives an execution that has not begun to another worker as the same attempt if process %s',
    async (_how, leave) => {
      const producer = bench.producer()
      const taken = gate()
      const stopped = vi.fn()
      const consumer = bench.consumer({
        async process(one) {
          taken.open()
          await aborted(one)
          stopped(one.signal.reason)
          await leave(one)
        },
      })
      const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
      await taken.opened
      await consumer.drain({ graceMs: 0 })
      expect(stopped).toHaveBeenCalledWith(expect.objectContaining({ stopCause: 'drain' }))
      expect(await producer.get(execution_id)).toMatchObject({
        status: 'queued',
        attempt: 1,
        started_at: null,
      })
      const seen = vi.fn()
      bench.consumer({
        async process(one) {
          seen(one.attempt, one.interrupted)
          await endWith('ok')(one)
        },
      })
      expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true, attempt: 1 })
      expect(seen.mock.calls).toEqual([[1, null]])
    },
  )

  it('asks an execution that has begun to stop, and waits for its ending', async () => {
    const producer = bench.producer()
    const begun = gate()
    const consumer = bench.consumer({
      async process(one) {
        await one.begin(sandboxRef(), SANDBOX_INFO)
        begun.open()
        await aborted(one)
        await one.settle(recordOf(one, 'worker_lost'), { slotMs: 1 })
      },
    })
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    await begun.opened
    await consumer.drain({ graceMs: 10 })
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ending: 'worker_lost' })
  })

  it('of a consumer that never started does nothing', async () => {
    const { createConsumer, connectRedis } = await import('../src/index.ts')
    const redis = connectRedis(bench.url, 'worker')
    const subscriber = connectRedis(bench.url, 'subscriber')
    const idle = createConsumer({
      redis,
      subscriber,
      workerId: 'wrk_x',
      slots: 1,
      lanes: ['routine'],
      process: endWith('ok'),
      onOutbox: async () => undefined,
    })
    await idle[Symbol.asyncDispose]()
    redis.disconnect()
    subscriber.disconnect()
  })
})

describe('putting an execution back', () => {
  it('runs a retried execution as the next attempt, with a notice between the attempts', async () => {
    const producer = bench.producer()
    bench.consumer({
      async process(one) {
        await one.begin(sandboxRef(), SANDBOX_INFO)
        if (one.attempt < 3) await one.retry(recordOf(one, 'sandbox_lost'), { slotMs: 5 })
        else await one.settle(recordOf(one, 'ok'), { slotMs: 5 })
      },
    })
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true, attempt: 3 })
    const events = await Array.fromAsync(
      producer.events(execution_id, { signal: AbortSignal.timeout(30_000) }),
    )
    expect(events.map(({ event }) => event.type)).toEqual([
      'queued',
      'started',
      'notice',
      'started',
      'notice',
      'started',
      'ended',
    ])
    expect(await bench.redis.zcard('{cofferdam}:out:interactive')).toBe(0)
  })

  it('parks only the tenant of a deferred execution, until the given time', async () => {
    const producer = bench.producer()
    const starts: string[] = []
    const dueMs = Date.now() + 600_000
    const parked = gate()
    let isDue = false
    bench.consumer({
      slots: 1,
      async process(one) {
        starts.push(one.request.agent_id)
        if (one.request.tenant_id !== 'capped' || isDue) return await endWith('ok')(one)
        await one.defer(dueMs, 'tenant_daily')
        parked.open()
      },
    })
    const first = await producer.put(requestOf({ tenant_id: 'capped', agent_id: 'first' }), {
      awaitReply: true,
    })
    // Put the second execution only after the tenant was parked. If it was released before, it would be
    // recalled.
    await parked.opened
    const second = await producer.put(requestOf({ tenant_id: 'capped', agent_id: 'second' }), {
      awaitReply: true,
    })
    const other = await producer.put(requestOf({ tenant_id: 'free', agent_id: 'other' }), {
      awaitReply: true,
    })
    await producer.wait(other.execution_id, { timeoutMs: 30_000 })
    expect(starts).toEqual(['first', 'other'])
    const { eta_ms } = (await producer.get(first.execution_id))!
    expect(Math.abs(Date.now() + eta_ms! - dueMs)).toBeLessThan(60_000)
    // Tells Redis that the ten minutes are over.
    isDue = true
    await bench.redis.zadd(KEYS.parked, Date.now(), 'capped')
    expect(await producer.wait(second.execution_id, { timeoutMs: 30_000 })).toMatchObject({
      ok: true,
      attempt: 1,
    })
    expect(await producer.wait(first.execution_id, { timeoutMs: 30_000 })).toMatchObject({
      ok: true,
      attempt: 1,
    })
    expect(starts).toEqual(['first', 'other', 'first', 'second'])
  })

  it('brings a parked tenant back when its limits are written, because a cap may have been raised', async () => {
    const producer = bench.producer()
    const starts: string[] = []
    const parked = gate()
    let isCapped = true
    bench.consumer({
      slots: 1,
      async process(one) {
        starts.push(one.request.agent_id)
        if (!isCapped) return await endWith('ok')(one)
        await one.defer(one.nowMs() + 600_000, 'tenant_daily')
        parked.open()
      },
    })
    const put = (agent_id: string) =>
      producer.put(requestOf({ tenant_id: 'capped', agent_id }), { awaitReply: true })
    const first = await put('first')
    await parked.opened
    const second = await put('second')
    isCapped = false
    await producer.setTenantLimits('capped', { weight: 1, concurrency: null, max_queued: null })
    for (const { execution_id } of [first, second])
      expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true, attempt: 1 })
    expect(starts).toEqual(['first', 'first', 'second'])
    expect(await bench.redis.zcard(KEYS.parked)).toBe(0)
  })

  it('shows a put-off execution as delayed, blocks nothing else, and keeps its position', async () => {
    const producer = bench.producer()
    const starts: string[] = []
    let isFull = true
    const held = gate()
    bench.consumer({
      slots: 1,
      async process(one) {
        starts.push(one.request.agent_id)
        if (one.request.agent_id === 'vendor' && isFull)
          return one.putOff(one.nowMs() + 600_000, 'Waits for room.')
        if (one.request.agent_id === 'holds') await held.opened
        await endWith('ok')(one)
      },
    })
    const put = (agent_id: string) => producer.put(requestOf({ agent_id }), { awaitReply: true })
    const [first, cancelled] = [await put('vendor'), await put('vendor')]
    await vi.waitFor(() => expect(starts).toHaveLength(2), 20_000)
    // An execution of the same tenant is served at once.
    await producer.wait((await put('other')).execution_id, { timeoutMs: 30_000 })
    const shown = (await producer.get(first.execution_id))!
    expect(shown).toMatchObject({ status: 'delayed', attempt: 1, position: null })
    expect(Math.abs(shown.eta_ms! - 600_000)).toBeLessThan(60_000)
    expect((await producer.stats()).lanes.interactive).toMatchObject({ delayed: 2, queued: 0, running: 0 })
    expect(await producer.cancel(cancelled.execution_id)).toBe('cancelled')

    // Tells Redis that the ten minutes are over. `first` then comes before later executions of its agent.
    const holder = await put('holds')
    await vi.waitFor(() => expect(starts).toContain('holds'), 20_000)
    isFull = false
    await bench.redis.zadd(`${KEYS.delayed}interactive`, Date.now() - 1000, first.execution_id)
    const later = await put('vendor')
    held.open()
    const order: string[] = []
    await Promise.all(
      [holder, later, first].map(async ({ execution_id: id }) => {
        expect(await producer.wait(id, { timeoutMs: 30_000 })).toMatchObject({ ok: true, attempt: 1 })
        order.push(id)
      }),
    )
    expect(order).toEqual([holder, first, later].map(({ execution_id: id }) => id))
    expect((await producer.stats()).lanes.interactive).toMatchObject({ delayed: 0, queued: 0, running: 0 })
  })

  it('is refused after begin, and every call is refused after the end', async () => {
    const producer = bench.producer()
    const refused: unknown[] = []
    const note = (error: unknown) => void refused.push(error)
    bench.consumer({
      async process(one) {
        await one.begin(sandboxRef(), SANDBOX_INFO)
        await one.giveBack().catch(note)
        await one.defer(Date.now(), 'late').catch(note)
        await one.putOff(Date.now(), 'late').catch(note)
        await endWith('ok')(one)
        await endWith('error')(one).catch(note)
        await one.begin(sandboxRef(), SANDBOX_INFO).catch(note)
      },
    })
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
    await vi.waitFor(() => expect(refused).toHaveLength(5), 20_000)
    expect(refused.map((error) => (error as { code: string }).code)).toEqual([
      'conflict',
      'conflict',
      'conflict',
      'fenced',
      'fenced',
    ])
  })
})
