/**
 * Position and ETA of everything that waits against what came, on a clock of the test's own: the real scheduler and a real consumer,
 * but runs end when the test says so, in the order of their virtual ends, and are charged their virtual length. So
 * the machine's speed does not matter.
 */
import type { ExecutionId } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { KEYS, type Producer, type Taken } from '../src/index.ts'
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
  /** Run lengths, one after the other. */
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

  /** Lets virtual time pass until `count` runs have started. */
  async runUntil(count: number): Promise<void> {
    while (this.starts.length < count) {
      const open = Math.min(SLOTS, count - this.starts.length + this.running.length)
      // Everybody who can run runs: only then is it known who ends first.
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

/** What one turn puts goes to Redis together, in its order. */
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
      // Nobody knows the length of the next one: a sum of fifty such lengths varies by a third.
      'lengths of 1 to 200 ms that are mixed inside of each tenant, with weights',
      0.65,
      [1, 2, 1, 4].map((weight, n) => ({
        tenant: `t${n}`,
        weight,
        agents: 7,
        ms: [1, 1, 20, 1, 200, 20, 1, 20, 1, 1],
      })),
    ],
  ])(
    'are right within 25 %%, %s: for a share of at least %f',
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
      // Asked when all are there: an execution that comes later to a tenant of more weight may pass earlier ones.
      const said = new Map(
        (await Promise.all(tenants.map(({ tenant }) => producer.live(tenant, 500))))
          .flat()
          .map((state) => [state.execution_id, state]),
      )
      await clock.runUntil(from + accepted)
      clock.endAll()
      const etaErrors: number[] = []
      const placeErrors: number[] = []
      // What starts within two window lengths hardly waits: an error of one turn is more than a quarter there.
      for (const [place, started] of clock.starts.slice(from).entries()) {
        if (place < 3 * SLOTS) continue
        const { position, eta_ms } = said.get(started.id) ?? { position: NaN, eta_ms: NaN }
        etaErrors.push((eta_ms ?? NaN) / (started.atMs - fromMs) - 1)
        // Those that run already are not in front of it.
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

  it('of what is let out already go by what has the slots, not by what came most often', async () => {
    const producer = bench.producer()
    const clock = new Clock()
    bench.consumer({ slots: SLOTS, lanes: ['interactive'], process: clock.process })
    await vi.waitFor(async () => expect((await producer.stats()).workers).toHaveLength(1), 20_000)
    // Alone, and with every slot.
    for (const tenant of ['large', 'small'])
      await producer.setTenantLimits(tenant, { weight: 1, concurrency: 100, max_queued: null })
    const large: Tenant = { tenant: 'large', weight: 1, agents: 3, ms: [310, 490, 370, 430] }
    // Each large one is known, and among the last hundred there are small ones almost only.
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
