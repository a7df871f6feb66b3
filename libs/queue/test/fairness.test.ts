import type { CofferdamError, ExecutionId } from '@cofferdam/contract'
import { isLongTier } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Producer, Taken } from '../src/index.ts'
import { KEYS } from '../src/testing.ts'
import { endWith, gate, requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

const WEIGHT_1 = { weight: 1, concurrency: null, max_queued: null }

/** Puts 100 at a time. With thousands a slow machine would miss the time limit for Redis's answers. */
async function flood(producer: Producer, tenant: string, count: number, agents = 1): Promise<void> {
  for (let from = 0; from < count; from += 100)
    await Promise.all(
      Array.from({ length: Math.min(100, count - from) }, (_, n) =>
        producer.put(requestOf({ tenant_id: tenant, agent_id: `agent-${(from + n) % agents}` })),
      ),
    )
}

/** Notes the tenant of every start, and charges the same slot time for each execution. */
function recorder(starts: string[], name: (taken: Taken) => string = (taken) => taken.request.tenant_id) {
  return async (taken: Taken): Promise<void> => {
    starts.push(name(taken))
    await endWith('ok', 100)(taken)
  }
}

describe('fairness between tenants', () => {
  it.each(isLongTier() ? [1, 100] : [100])(
    'lets a tenant with one execution pass 1,000 executions of another tenant with %i agents',
    async (agents) => {
      const producer = bench.producer()
      await flood(producer, 'heavy', 1000, agents)
      const starts: string[] = []
      const record = recorder(starts)
      let lightIsQueued = gate()
      // Heavy executions hold all four slots while the light tenant puts, and again once its execution has
      // started.
      let held = 0
      bench.consumer({
        async process(taken) {
          if (taken.request.tenant_id === 'light') lightIsQueued = gate()
          else if (starts.length >= 50) {
            held += 1
            await lightIsQueued.opened
            held -= 1
          }
          await record(taken)
        },
      })
      for (let n = 0; n < 10; n += 1) {
        await vi.waitFor(() => expect(held).toBe(4), 20_000)
        const before = starts.length
        const request = requestOf({ tenant_id: 'light', agent_id: 'only' })
        const { execution_id } = await producer.put(request, { awaitReply: true })
        lightIsQueued.open()
        expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
        // At most 4 that hold the slots and 5 that were already released (the window).
        expect(starts.indexOf('light', before) - before).toBeLessThanOrEqual(9)
      }
      expect(starts.filter((tenant) => tenant === 'heavy').length).toBeLessThan(1000)
    },
  )

  it('divides the slots by weight while both tenants have work', async () => {
    const producer = bench.producer()
    await producer.setTenantLimits('three', { ...WEIGHT_1, weight: 3 })
    await flood(producer, 'one', 300)
    await flood(producer, 'three', 300)
    const starts: string[] = []
    bench.consumer({ process: recorder(starts) })
    await vi.waitFor(() => expect(starts.length).toBeGreaterThan(240), 20_000)
    const share = starts.slice(40, 240).filter((tenant) => tenant === 'three').length
    expect(share).toBeGreaterThan(135)
    expect(share).toBeLessThan(165)
  })

  it('charges the slot time used, so a tenant with long runs starts fewer of them', async () => {
    const producer = bench.producer()
    // Without limits of their own, tenants with long runs would have to leave slots to others.
    for (const tenant of ['long', 'short'])
      await producer.setTenantLimits(tenant, { ...WEIGHT_1, concurrency: 100 })
    await flood(producer, 'long', 300)
    await flood(producer, 'short', 300)
    const starts: string[] = []
    bench.consumer({
      async process(taken) {
        starts.push(taken.request.tenant_id)
        await endWith('ok', taken.request.tenant_id === 'long' ? 4000 : 1000)(taken)
      },
    })
    await vi.waitFor(() => expect(starts.length).toBeGreaterThan(240), 20_000)
    const share = starts.slice(40, 240).filter((tenant) => tenant === 'short').length
    expect(share).toBeGreaterThan(140)
    expect(share).toBeLessThan(180)
  })

  it('gives a tenant no advantage for having been idle', async () => {
    const producer = bench.producer()
    await flood(producer, 'busy', 400)
    const starts: string[] = []
    const record = recorder(starts)
    const lateIsQueued = gate()
    bench.consumer({
      async process(taken) {
        if (starts.length >= 200) await lateIsQueued.opened
        await record(taken)
      },
    })
    await vi.waitFor(() => expect(starts.length).toBe(200), 20_000)
    await flood(producer, 'late', 100)
    const from = starts.length
    lateIsQueued.open()
    await vi.waitFor(() => expect(starts.length).toBe(500), 20_000)
    // Both tenants take turns from here. `late` does not catch up on 200 starts.
    const next = starts.slice(from, from + 100).filter((tenant) => tenant === 'late').length
    expect(next).toBeGreaterThanOrEqual(40)
    expect(next).toBeLessThanOrEqual(60)
  })
})

describe('inside a tenant', () => {
  it('agents take turns, so a single execution waits for one of each other agent at most', async () => {
    const producer = bench.producer()
    for (const agent of ['a', 'b'])
      await Promise.all(Array.from({ length: 20 }, () => producer.put(requestOf({ agent_id: agent }))))
    await producer.put(requestOf({ agent_id: 'c' }))
    const starts: string[] = []
    bench.consumer({ slots: 1, process: recorder(starts, ({ request }) => request.agent_id) })
    await vi.waitFor(() => expect(starts).toHaveLength(41), 20_000)
    expect(starts.slice(0, 7)).toEqual(['a', 'b', 'c', 'a', 'b', 'a', 'b'])
  })

  it('starts higher priority first, and keeps the order of arrival within one priority', async () => {
    const producer = bench.producer()
    const names: Record<ExecutionId, string> = {}
    for (const [n, priority] of [5, 0, 9, 5, 9, 1].entries())
      names[(await producer.put(requestOf({ priority }))).execution_id] = `${priority}#${n}`
    const starts: string[] = []
    bench.consumer({ slots: 1, process: recorder(starts, ({ executionId }) => names[executionId] ?? '?') })
    await vi.waitFor(() => expect(starts).toHaveLength(6), 20_000)
    expect(starts).toEqual(['9#2', '9#4', '5#0', '5#3', '1#5', '0#1'])
  })
})

describe('limits of a tenant', () => {
  it('cap its running executions at its concurrency, and a raised limit takes effect at once', async () => {
    const producer = bench.producer()
    await producer.setTenantLimits('acme', { ...WEIGHT_1, concurrency: 2 })
    await flood(producer, 'acme', 12)
    await flood(producer, 'other', 1)
    let running = 0
    let most = 0
    let other = false
    const release = gate()
    bench.consumer({
      slots: 8,
      async process(taken) {
        if (taken.request.tenant_id === 'other') other = true
        else most = Math.max(most, (running += 1))
        await release.opened
        running -= 1
        await endWith('ok')(taken)
      },
    })
    await vi.waitFor(() => expect([running, other]).toEqual([2, true]), 20_000)
    expect((await producer.stats()).lanes.interactive).toMatchObject({ queued: 10, running: 3, window: 10 })
    expect(most).toBe(2)
    await producer.setTenantLimits('acme', { ...WEIGHT_1, concurrency: 5 })
    await vi.waitFor(() => expect(running).toBe(5), 20_000)
    release.open()
    await vi.waitFor(async () => expect(await producer.live('acme', 100)).toEqual([]), 20_000)
    expect(most).toBe(5)
  })

  it('refuse puts beyond the queue depth, and report how many executions wait', async () => {
    const producer = bench.producer()
    await producer.setTenantLimits('acme', { ...WEIGHT_1, max_queued: 3 })
    await flood(producer, 'acme', 2)
    await producer.put(requestOf({ delay_ms: 60_000 }))
    await expect(producer.put(requestOf())).rejects.toMatchObject({
      code: 'queue_full',
      details: { queued: 3, limit: 3 },
    })
    // A refused put leaves nothing behind, and other tenants are not affected.
    expect(await producer.live('acme', 10)).toHaveLength(3)
    await producer.put(requestOf({ tenant_id: 'other' }))
    await producer.setTenantLimits('acme', WEIGHT_1)
    await producer.put(requestOf())
  })

  it('tell a refused caller when the queue is expected to have space again', async () => {
    const producer = bench.producer()
    await producer.setTenantLimits('acme', { ...WEIGHT_1, concurrency: 1, max_queued: 2 })
    const roomInMs = async (): Promise<unknown> => {
      const refused: unknown = await producer.put(requestOf()).catch((error: unknown) => error)
      return (refused as CofferdamError).details['room_in_ms']
    }
    await flood(producer, 'acme', 2)
    // No worker serves the lane, so there is no forecast.
    expect(await roomInMs()).toBeNull()
    // Pretends that a run takes 7 s on average.
    await bench.redis.hset(KEYS.clock, 'avg:interactive', 7)
    const [runs, release] = [gate(), gate()]
    bench.consumer({
      slots: 1,
      async process(taken) {
        runs.open()
        await release.opened
        await endWith('ok')(taken)
      },
    })
    // The put must come after the take: a released execution would count as one more that waits.
    await runs.opened
    await producer.put(requestOf())
    expect(await roomInMs()).toBe(7000)
    release.open()
  })

  it.each([0, 1, 10_000])(
    'hold a depth of %i exactly under eight producers at once, also with delayed executions',
    async (depth) => {
      const producers = Array.from({ length: 8 }, () => bench.producer())
      await producers[0]!.setTenantLimits('acme', { ...WEIGHT_1, max_queued: depth })
      const tries = depth + 400
      let next = 0
      const outcomes = { accepted: 0, full: 0 }
      await Promise.all(
        producers.flatMap((producer) =>
          Array.from({ length: 16 }, async () => {
            while (next < tries) {
              const n = (next += 1)
              const request = requestOf({
                agent_id: `agent-${n % 50}`,
                ...(n % 3 === 0 ? { delay_ms: 600_000 } : {}),
                ...(n % 5 === 0 ? { session: { key: `s${n % 7}` } } : {}),
              })
              await producer.put(request).then(
                () => (outcomes.accepted += 1),
                (error: unknown) => {
                  expect(error).toMatchObject({
                    code: 'queue_full',
                    details: { queued: depth, limit: depth },
                  })
                  outcomes.full += 1
                },
              )
            }
          }),
        ),
      )
      expect(outcomes).toEqual({ accepted: depth, full: 400 })
      const { queued, delayed } = (await producers[0]!.stats()).lanes.interactive
      expect(queued + delayed).toBe(depth)
    },
    120_000,
  )

  it('with a queue depth of 0 accept an execution only if a slot is free at once', async () => {
    const producer = bench.producer()
    await producer.setTenantLimits('acme', { ...WEIGHT_1, max_queued: 0, concurrency: 1 })
    await expect(producer.put(requestOf())).rejects.toMatchObject({ code: 'queue_full' })
    const release = gate()
    bench.consumer({
      async process(taken) {
        await release.opened
        await endWith('ok')(taken)
      },
    })
    await vi.waitFor(async () => expect((await producer.stats()).workers).toHaveLength(1), 20_000)
    await producer.put(requestOf())
    await expect(producer.put(requestOf())).rejects.toMatchObject({ code: 'queue_full' })
    release.open()
  })

  it('by default leave a quarter of the slots to other tenants, but only while runs are long', async () => {
    const producer = bench.producer()
    await flood(producer, 'acme', 100)
    let running = 0
    let release = gate()
    let slotMs = 60_000
    bench.consumer({
      slots: 80,
      async process(taken) {
        running += 1
        await release.opened
        running -= 1
        await endWith('ok', slotMs)(taken)
      },
    })
    await vi.waitFor(() => expect(running).toBe(60), 20_000)
    const { execution_id } = await producer.put(requestOf({ tenant_id: 'other' }))
    await vi.waitFor(() => expect(running).toBe(61), 20_000)
    slotMs = 10
    const first = release
    release = gate()
    first.open()
    await vi.waitFor(
      async () => expect(await producer.get(execution_id)).toMatchObject({ status: 'ended' }),
      20_000,
    )
    await flood(producer, 'acme', 100)
    await vi.waitFor(() => expect(running).toBe(80), 20_000)
    release.open()
  })
})

describe('position and ETA', () => {
  it('count the executions that are expected to start earlier, across tenants and agents', async () => {
    const producer = bench.producer()
    await flood(producer, 'heavy', 50)
    const light = await producer.put(requestOf({ tenant_id: 'light' }))
    // The fair order puts at most one execution of the heavy tenant before the first one of the light tenant.
    expect(light.position).toBeLessThanOrEqual(1)
    const heavy = await producer.put(requestOf({ tenant_id: 'heavy', agent_id: 'agent-0' }))
    expect(heavy.position).toBe(51)
    const fresh = await producer.put(requestOf({ tenant_id: 'heavy', agent_id: 'new' }))
    expect(fresh.position).toBeLessThanOrEqual(3)
    expect(heavy.eta_ms).toBeNull()
  })

  it('use measured run times once there are some', async () => {
    const producer = bench.producer()
    const release = gate()
    let count = 0
    bench.consumer({
      slots: 2,
      async process(taken) {
        if ((count += 1) > 10) await release.opened
        await endWith('ok', 2000)(taken)
      },
    })
    await flood(producer, 'acme', 10)
    await vi.waitFor(async () => expect(await producer.live('acme', 100)).toEqual([]), 20_000)
    await flood(producer, 'acme', 13)
    await vi.waitFor(() => expect(count).toBe(12), 20_000)
    const { position, eta_ms } = await producer.put(requestOf({ agent_id: 'agent-0' }))
    // 2 run, 1 is released (the window of 2 slots is 3), and 10 wait before this one. Each takes 2 s, two run
    // at once.
    expect(position).toBe(11)
    expect(eta_ms).toBeGreaterThanOrEqual(7000)
    expect(eta_ms).toBeLessThanOrEqual(13_000)
    release.open()
  })
})
