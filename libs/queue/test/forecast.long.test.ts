/**
 * Compares the forecast position and ETA of every waiting execution with what then happens. The scheduler and
 * the consumer are real, but time is virtual: a run ends when the test says so, in the order of the virtual
 * end times, and is charged its virtual length. So the speed of the machine does not matter.
 */
import type { ExecutionId } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Producer, Taken } from '../src/index.ts'
import { KEYS } from '../src/testing.ts'
import { endWith, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

const SLOTS = 8

interface Tenant {
  tenant: string
  weight: number
  agents: number
  /** Run lengths, used in turn. */
  ms: readonly number[]
}

interface Started {
  id: ExecutionId
  atMs: number
  endMs: number
  end: () => void
}

/** A consumer whose runs take virtual time. */
class Clock {
  nowMs = 0
  readonly starts: Started[] = []
  private running: Started[] = []
  private readonly lengths = new Map<ExecutionId, number>()

  readonly process = async (taken: Taken): Promise<void> => {
    const ms = Number(taken.request.env?.['MS'])
    this.lengths.set(taken.executionId, ms)
    await taken.begin(sandboxRef(), SANDBOX_INFO)
    const { promise, resolve } = Promise.withResolvers<void>()
    const started = { id: taken.executionId, atMs: this.nowMs, endMs: this.nowMs + ms, end: resolve }
    this.starts.push(started)
    this.running.push(started)
    await promise
    await endWith('ok', ms)(taken)
  }

  /** Advances virtual time until `count` runs have started. */
  async runUntil(count: number): Promise<void> {
    while (this.starts.length < count) {
      const open = Math.min(SLOTS, count - this.starts.length + this.running.length)
      // Wait until every slot that can run something does. Only then is the next end known.
      await vi.waitFor(() => expect(this.running.length).toBeGreaterThanOrEqual(open), {
        timeout: 20_000,
        interval: 1,
      })
      this.endNext()
    }
  }

  endNext(): void {
    const next = this.running.toSorted((a, b) => a.endMs - b.endMs)[0]
    if (next === undefined) return
    this.running = this.running.filter((one) => one !== next)
    this.nowMs = next.endMs
    next.end()
  }

  endAll(): void {
    while (this.running.length > 0) this.endNext()
  }
}

/**
 * Puts 100 requests in one turn of the event loop, then the next 100, so that they reach Redis in this order.
 */
async function put(producer: Producer, tenants: readonly Tenant[], each: number): Promise<number> {
  const requests = Array.from({ length: each }, (_, n) =>
    tenants.map(({ tenant, agents, ms }) =>
      requestOf({
        tenant_id: tenant,
        agent_id: `agent-${n % agents}`,
        env: { MS: String(ms[n % ms.length]) },
      }),
    ),
  ).flat()
  for (let from = 0; from < requests.length; from += 100)
    await Promise.all(requests.slice(from, from + 100).map((request) => producer.put(request)))
  return requests.length
}

const shareWithin = (errors: readonly number[], bound: number): number =>
  errors.filter((error) => Math.abs(error) <= bound).length / errors.length

describe('position and ETA', () => {
  it.each<[string, number, Tenant[]]>([
    ['one tenant alone', 0.9, [{ tenant: 'a', weight: 1, agents: 3, ms: [50] }]],
    [
      'four tenants with one run length',
      0.9,
      ['a', 'b', 'c', 'd'].map((tenant, n) => ({ tenant, weight: 1, agents: 1 + 5 * n, ms: [50] })),
    ],
    [
      'weights of 1, 1, 2 and 4',
      0.9,
      [1, 1, 2, 4].map((weight, n) => ({ tenant: `t${n}`, weight, agents: 5, ms: [50] })),
    ],
    [
      'run lengths of 10 to 400 ms',
      0.9,
      [10, 50, 100, 400].map((ms, n) => ({ tenant: `t${n}`, weight: 1, agents: 5, ms: [ms] })),
    ],
    [
      // Single lengths cannot be predicted. A sum of fifty such lengths varies by a third.
      'lengths of 1 to 200 ms mixed within each tenant, with weights',
      0.65,
      [1, 2, 1, 4].map((weight, n) => ({
        tenant: `t${n}`,
        weight,
        agents: 7,
        ms: [1, 1, 20, 1, 200, 20, 1, 20, 1, 1],
      })),
    ],
  ])(
    'deviate by at most 25 %% with %s, for a share of at least %f',
    async (_what, share, tenants) => {
      const producer = bench.producer()
      for (const { tenant, weight } of tenants)
        await producer.setTenantLimits(tenant, { weight, concurrency: 1000, max_queued: null })
      const clock = new Clock()
      bench.consumer({ slots: SLOTS, lanes: ['interactive'], process: clock.process })
      await vi.waitFor(async () => expect((await producer.stats()).workers).toHaveLength(1), 20_000)
      const learnt = await put(producer, tenants, 60)
      await clock.runUntil(learnt)
      clock.endAll()
      await vi.waitFor(
        async () =>
          expect((await producer.stats()).lanes.interactive).toMatchObject({ running: 0, queued: 0 }),
        20_000,
      )
      const fromMs = clock.nowMs
      const from = clock.starts.length
      const accepted = await put(producer, tenants, Math.ceil(400 / tenants.length))
      // Read the forecasts after all puts, because a later execution of a tenant with more weight may
      // overtake an earlier one.
      const said = new Map(
        (await Promise.all(tenants.map(({ tenant }) => producer.live(tenant, 500))))
          .flat()
          .map((state) => [state.execution_id, state]),
      )
      await clock.runUntil(from + accepted)
      clock.endAll()
      const etaErrors: number[] = []
      const placeErrors: number[] = []
      // Skip as many executions as three times the slots. They wait so briefly that an error of one run
      // exceeds 25 %.
      for (const [place, started] of clock.starts.slice(from).entries()) {
        if (place < 3 * SLOTS) continue
        const { position, eta_ms } = said.get(started.id) ?? { position: NaN, eta_ms: NaN }
        etaErrors.push((eta_ms ?? NaN) / (started.atMs - fromMs) - 1)
        // The position does not count the runs that already have a slot.
        placeErrors.push(((position ?? NaN) + 1) / (place - SLOTS + 1) - 1)
      }
      const report = JSON.stringify({
        eta: shareWithin(etaErrors, 0.25),
        place: shareWithin(placeErrors, 0.25),
        etaMedian: etaErrors.toSorted((a, b) => a - b)[etaErrors.length >> 1],
        placeMedian: placeErrors.toSorted((a, b) => a - b)[placeErrors.length >> 1],
      })
      expect(shareWithin(etaErrors, 0.25), report).toBeGreaterThanOrEqual(share)
      expect(shareWithin(placeErrors, 0.25), report).toBeGreaterThanOrEqual(share)
    },
    180_000,
  )

  it('of a released execution depend on the runs that hold the slots, not on the latest runs', async () => {
    const producer = bench.producer()
    const clock = new Clock()
    bench.consumer({ slots: SLOTS, lanes: ['interactive'], process: clock.process })
    await vi.waitFor(async () => expect((await producer.stats()).workers).toHaveLength(1), 20_000)
    // Each of the two tenants may use every slot.
    for (const tenant of ['large', 'small'])
      await producer.setTenantLimits(tenant, { weight: 1, concurrency: 100, max_queued: null })
    const large: Tenant = { tenant: 'large', weight: 1, agents: 3, ms: [310, 490, 370, 430] }
    // The queue has seen every run length of `large`, but almost all of the last hundred runs were those of
    // `small`.
    const learnt = await put(producer, [large], 20)
    await clock.runUntil(learnt)
    clock.endAll()
    const small = await put(producer, [{ tenant: 'small', weight: 1, agents: 3, ms: [5] }], 400)
    await clock.runUntil(learnt + small)
    clock.endAll()

    const from = clock.starts.length
    const total = await put(producer, [large], 80)
    const promises: { id: ExecutionId; atMs: number; etaMs: number }[] = []
    for (let started = 2 * SLOTS; started < total - SLOTS; started += 1) {
      await clock.runUntil(from + started)
      for (const { execution_id: id, eta_ms } of await producer.live('large', 500))
        if ((await bench.redis.hget(KEYS.record + id, 's')) === 'released')
          promises.push({ id, atMs: clock.nowMs, etaMs: eta_ms ?? NaN })
    }
    await clock.runUntil(from + total)
    clock.endAll()
    const startedAt = new Map(clock.starts.map(({ id, atMs }) => [id, atMs]))
    const sum = (values: number[]): number => values.reduce((all, value) => all + value, 0)
    const ratio =
      sum(promises.map(({ etaMs }) => etaMs)) /
      sum(promises.map(({ id, atMs }) => (startedAt.get(id) ?? NaN) - atMs))
    expect(promises.length).toBeGreaterThan(SLOTS)
    expect(ratio).toBeGreaterThan(0.75)
    expect(ratio).toBeLessThan(1.25)
  }, 180_000)
})
