/** What `tenants` says of the tenants with work: exact figures, and the order in which they are served. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { standings, type Producer, type TenantFigures, type TenantsSnapshot } from '../src/index.ts'
import { endWith, gate, requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
const gates: ReturnType<typeof gate>[] = []
afterEach(async () => {
  for (const one of gates.splice(0)) one.open()
  await bench.clear()
})
afterAll(() => bench[Symbol.asyncDispose]())

const SOON = { timeout: 20_000, interval: 20 }

async function put(
  producer: Producer,
  tenant: string,
  count = 1,
  input: Parameters<typeof requestOf>[0] = {},
) {
  const requests = Array.from({ length: count }, () => requestOf({ tenant_id: tenant, ...input }))
  await Promise.all(requests.map((request) => producer.put(request)))
}

/** A worker whose executions end, one at a time, when the test says `next`. */
function steppedWorker(slots: number) {
  const starts: string[] = []
  const waiting: (() => void)[] = []
  bench.consumer({
    slots,
    async process(taken) {
      const held = gate()
      gates.push(held)
      waiting.push(() => held.open())
      starts.push(taken.request.tenant_id)
      await held.opened
      // 100 ms is the first estimate of a run, so the end of the run corrects nothing.
      await endWith('ok', 100)(taken)
    },
  })
  return { starts, next: () => waiting.shift()?.() }
}

const rowOf = (snapshot: TenantsSnapshot, tenant: string): TenantFigures => {
  const row = snapshot.tenants.find(({ tenantId }) => tenantId === tenant)
  if (row === undefined) throw new Error(`no row of ${tenant}`)
  return row
}

const namesOf = ({ tenants }: TenantsSnapshot) => tenants.map(({ tenantId }) => tenantId).toSorted()

/** Tenants that can be served, the next one first. */
const orderOf = ({ tenants }: TenantsSnapshot) =>
  [...standings(tenants)]
    .filter(([, { place }]) => place !== null)
    .toSorted(([, a], [, b]) => Number(a.place) - Number(b.place))
    .map(([tenant]) => tenant)

describe('the figures of tenants', () => {
  it('are empty while nothing waits or runs', async () => {
    expect(await bench.producer().tenants()).toMatchObject({ tenants: [], held: [], complete: true })
  })

  it('count what waits, is delayed and holds a slot, with the limits', async () => {
    const producer = bench.producer()
    await producer.setTenantLimits('light', { weight: 0.5, concurrency: 1, max_queued: 7 })
    await producer.setTenantLimits('heavy', { weight: 1.5, concurrency: 50, max_queued: null })
    const { starts } = steppedWorker(2)
    await put(producer, 'light', 3)
    await vi.waitFor(() => expect(starts).toEqual(['light']), SOON)
    await put(producer, 'heavy', 5)
    await put(producer, 'heavy', 2, { delay_ms: 60_000 })
    await put(producer, 'delayed', 1, { delay_ms: 60_000 })
    await put(producer, 'routines', 4, { lane: 'routine' })
    // The window of 2 slots is 3: one of light, one of heavy, and one in the quarter for the routine lane.
    await vi.waitFor(() => expect(starts).toHaveLength(2), SOON)
    const snapshot = await producer.tenants()
    expect(namesOf(snapshot)).toEqual(['heavy', 'light', 'routines'])
    expect(rowOf(snapshot, 'light')).toMatchObject({
      waiting: {
        interactive: 2,
        routine: 0,
      },
      delayed: 0,
      running: 1,
      weight: 0.5,
      concurrency: 1,
      maxQueued: 7,
      parkedUntilMs: null,
    })
    const [heavy, routines] = [rowOf(snapshot, 'heavy'), rowOf(snapshot, 'routines')]
    expect(heavy).toMatchObject({ delayed: 2, weight: 1.5, maxQueued: 10_000 })
    expect(heavy.running + heavy.waiting.interactive).toBe(5)
    expect(routines.running + routines.waiting.routine).toBe(4)
    expect(heavy.running + routines.running).toBe(2)
    // A worker has taken two of the three released executions.
    expect(snapshot.held).toHaveLength(2)
    for (const { sinceMs } of snapshot.held) expect(snapshot.atMs - sinceMs).toBeLessThan(60_000)
    const standing = standings(snapshot.tenants)
    expect(standing.get('light')).toMatchObject({ dueShare: 0.5 / 3, place: null })
    expect(standing.get('heavy')).toMatchObject({ dueShare: 0.5, place: 1 })
    expect(standing.get('routines')).toMatchObject({ dueShare: 1 / 3, place: 1 })
  })

  it('have the tenants of executions that wait for the worker of their session', async () => {
    const producer = bench.producer()
    const { starts, next } = steppedWorker(1)
    await put(producer, 'owned', 1, { session: { key: 'chat' } })
    await vi.waitFor(() => expect(starts).toHaveLength(1), SOON)
    await put(producer, 'busy')
    next()
    await vi.waitFor(() => expect(starts).toEqual(['owned', 'busy']), SOON)
    await put(producer, 'owned', 2, { session: { key: 'chat' } })
    expect(rowOf(await producer.tenants(), 'owned')).toMatchObject({
      waiting: { interactive: 2, routine: 0 },
      running: 0,
    })
    expect(namesOf(await producer.tenants())).toEqual(['busy', 'owned'])
  })

  it('have a parked tenant with the moment of its return, and it is due nothing', async () => {
    const producer = bench.producer()
    bench.consumer({
      async process(taken) {
        if (taken.request.tenant_id === 'parked') await taken.defer(taken.nowMs() + 60_000, 'no room')
        else await gate().opened
      },
    })
    await put(producer, 'parked', 3)
    await vi.waitFor(
      async () => expect(rowOf(await producer.tenants(), 'parked').waiting.interactive).toBe(3),
      SOON,
    )
    const snapshot = await producer.tenants()
    const row = rowOf(snapshot, 'parked')
    expect(row.parkedUntilMs).toBeGreaterThan(snapshot.atMs + 30_000)
    expect(standings(snapshot.tenants).get('parked')).toMatchObject({ dueShare: 0, place: null })
  })

  it('tell since when the oldest waiting execution has been due', async () => {
    const producer = bench.producer()
    const { starts } = steppedWorker(1)
    await put(producer, 'a')
    await vi.waitFor(() => expect(starts).toEqual(['a']), SOON)
    await put(producer, 'a', 1, { delay_ms: 60_000 })
    expect(await producer.oldestWaiting(['a', 'nobody'])).toEqual(new Map())
    const before = (await producer.tenants()).atMs
    await put(producer, 'b', 3)
    const between = (await producer.tenants()).atMs
    await put(producer, 'a', 2)
    const found = await producer.oldestWaiting(['a', 'b', 'nobody'])
    expect([...found.keys()]).toEqual(['a', 'b'])
    expect(found.get('a')).toBeGreaterThanOrEqual(between)
    expect(found.get('b')).toBeGreaterThanOrEqual(before)
    expect(found.get('b')).toBeLessThanOrEqual(between)
  })
})

describe('the order of tenants', () => {
  it('foretells who gets each next slot, by weight', async () => {
    const producer = bench.producer()
    const weights = { one: 1, two: 2, five: 5 }
    for (const [tenant, weight] of Object.entries(weights))
      // With limits of their own, tenants do not leave slots to others.
      await producer.setTenantLimits(tenant, { weight, concurrency: 50, max_queued: null })
    for (const tenant of Object.keys(weights)) await put(producer, tenant, 30)
    const { starts, next } = steppedWorker(1)
    const holding = (snapshot: TenantsSnapshot) =>
      snapshot.tenants.flatMap(({ tenantId, running }) => Array<string>(running).fill(tenantId)).toSorted()
    const got: string[] = []
    for (let step = 1; step <= 24; step += 1) {
      // One runs, and one more is released to its worker (the window of one slot is 2).
      await vi.waitFor(() => expect(starts).toHaveLength(step), SOON)
      const snapshot = await producer.tenants()
      const [foretold = 'nobody'] = orderOf(snapshot)
      const kept = holding(snapshot).toSpliced(holding(snapshot).indexOf(starts.at(-1) ?? ''), 1)
      next()
      await vi.waitFor(() => expect(starts).toHaveLength(step + 1), SOON)
      expect(holding(await producer.tenants())).toEqual([...kept, foretold].toSorted())
      got.push(foretold)
    }
    for (const [tenant, weight] of Object.entries(weights)) {
      const part = got.filter((name) => name === tenant).length
      expect(Math.abs(part - (24 * weight) / 8)).toBeLessThanOrEqual(1)
    }
  })

  it('shows how far each tenant is ahead of the clock', async () => {
    const producer = bench.producer()
    await producer.setTenantLimits('slow', { weight: 0.5, concurrency: 50, max_queued: null })
    const { starts, next } = steppedWorker(1)
    await put(producer, 'slow', 3)
    await vi.waitFor(() => expect(starts).toHaveLength(1), SOON)
    // Two executions were released, each charged 0.1 s / 0.5 (the weight) = 0.2. The virtual clock is at the
    // start of the second one, 0.2.
    const lag = async (tenant: string) =>
      standings((await producer.tenants()).tenants).get(tenant)?.virtualLag
    expect(await lag('slow')).toBeCloseTo(0.2, 6)
    await put(producer, 'other')
    expect(await lag('other')).toBeCloseTo(0, 6)
    expect(orderOf(await producer.tenants())).toEqual(['other', 'slow'])
    next()
    await vi.waitFor(() => expect(starts).toHaveLength(2), SOON)
  })
})
