/**
 * 10,000 executions over four kinds of workers. Each runs once, on a worker that can run it. No slot stays
 * free while something waits that fits it, and tenants get the same shares as in a fleet whose workers are
 * alike.
 */
import { newWorkerId } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import type { Offer, Producer, Taken } from '../src/index.ts'
import { KEYS } from '../src/testing.ts'
import { endWith, requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

const EXECUTIONS = 10_000
const SLOTS = 4
const COMMON = ['program=script', 'language=python', 'network=none']
const offer = (...words: string[]): readonly Offer[] => [new Set([...COMMON, ...words])]
/** Every kind runs `auto`. Each backend is on one kind, and the isolation `container` is on two. */
const KINDS: Readonly<Record<string, readonly Offer[]>> = {
  process: offer('backend=process', 'isolation=jail'),
  docker: offer('backend=docker', 'isolation=jail', 'isolation=container'),
  remote: offer('backend=remote', 'isolation=jail', 'isolation=container', 'isolation=microvm'),
  large: offer('backend=large', 'isolation=jail', 'memory=512'),
}
const EVERYTHING: readonly Offer[] = Object.values(KINDS).flat()
const BACKENDS = [...Object.keys(KINDS), 'auto']
/** Tenants and their weights. Every tenant has work at least until half of all executions have run. */
const WEIGHTS: Readonly<Record<string, number>> = { one: 1, two: 2, three: 3 }
const TENANTS = Object.keys(WEIGHTS)
const ALL_WEIGHT = 6

interface Start {
  id: string
  tenant: string
  backend: string
  worker: string
}

/** Enqueues everything, then runs it on four workers. Returns the starts in their order. */
async function measure(offersOf: (worker: string) => readonly Offer[]): Promise<Start[]> {
  const producer = bench.producer()
  for (const [tenant, weight] of Object.entries(WEIGHTS))
    await producer.setTenantLimits(tenant, { weight, concurrency: null, max_queued: EXECUTIONS })
  const accepted = await enqueueAll(producer)
  const starts: Start[] = []
  const ended = new Set<string>()
  for (const worker of Object.keys(KINDS))
    bench.consumer({
      workerId: newWorkerId('0123456789ab'),
      slots: SLOTS,
      offers: () => offersOf(worker),
      async process(taken: Taken) {
        const { tenant_id: tenant, backend } = taken.request
        starts.push({ id: taken.executionId, tenant, backend, worker })
        // Every run costs the same, so that shares of starts are shares of slot time.
        await endWith('ok', 10)(taken)
        ended.add(taken.executionId)
      },
    })
  await vi.waitFor(() => expect(ended.size).toBe(accepted.length), { timeout: 500_000, interval: 200 })
  expect(new Set(starts.map(({ id }) => id)).size).toBe(EXECUTIONS)
  expect(starts).toHaveLength(EXECUTIONS)
  for (const lane of ['interactive', 'routine']) {
    expect(await bench.redis.zcard(KEYS.waiting + lane)).toBe(0)
    expect(await bench.redis.zcard(KEYS.out + lane)).toBe(0)
  }
  return starts
}

async function enqueueAll(producer: Producer) {
  const accepted = []
  for (let from = 0; from < EXECUTIONS; from += 100)
    accepted.push(
      ...(await Promise.all(
        Array.from({ length: 100 }, (_, i) => {
          const n = from + i
          return producer.put(
            requestOf({
              tenant_id: TENANTS[n % TENANTS.length] ?? '',
              agent_id: `agent-${n % 7}`,
              backend: BACKENDS[Math.floor(n / TENANTS.length) % BACKENDS.length],
            }),
          )
        }),
      )),
    )
  return accepted
}

/**
 * The largest difference between the share of a tenant and its due, among the first starts of each worker.
 */
function unfairness(starts: readonly Start[], workers: readonly string[]): number {
  const gaps = workers.flatMap((worker) => {
    const own = starts.filter((start) => start.worker === worker)
    // The heaviest tenant has work for two thirds of these starts. In the first half, no tenant runs out of
    // work.
    const first = own.slice(0, Math.floor(own.length / 2))
    return TENANTS.map((tenant) => {
      const share = first.filter((start) => start.tenant === tenant).length / first.length
      return Math.abs(share - (WEIGHTS[tenant] ?? 0) / ALL_WEIGHT)
    })
  })
  return Math.max(...gaps)
}

/**
 * How many executions other workers started while a worker ran nothing although something waited for it. A
 * count of starts does not depend on how fast the machine is.
 */
function longestPause(starts: readonly Start[], worker: string): number {
  const fits = (start: Start) => start.backend === worker || start.backend === 'auto'
  const last = starts.findLastIndex(fits)
  let pause = 0
  let longest = 0
  for (const start of starts.slice(0, last + 1)) {
    pause = start.worker === worker ? 0 : pause + 1
    longest = Math.max(longest, pause)
  }
  return longest
}

it('gives tenants of a mixed fleet the shares of a uniform one, and leaves no kind idle', async () => {
  const mixed = await measure((worker) => KINDS[worker] ?? [])
  expect(mixed.filter(({ backend, worker }) => backend !== 'auto' && backend !== worker)).toEqual([])
  const pauses = Object.keys(KINDS).map((worker) => longestPause(mixed, worker))
  await bench.clear()
  const uniform = await measure(() => EVERYTHING)
  const figures = {
    mixed: unfairness(mixed, Object.keys(KINDS)),
    uniform: unfairness(uniform, Object.keys(KINDS)),
    pauses,
  }
  console.info(JSON.stringify(figures))
  expect(figures.uniform).toBeLessThan(0.03)
  expect(figures.mixed).toBeLessThan(0.03)
  // Each worker has a quarter of all slots. It is never idle while the others fill theirs many times over.
  expect(Math.max(...pauses)).toBeLessThan(50 * SLOTS)
}, 1_200_000)
