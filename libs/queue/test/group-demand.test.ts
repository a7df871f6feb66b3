/** How much work waits and runs for each group of workers. The groups are scaled by these figures. */
import { newWorkerId, type Accepted } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { announceVersion, LOCK_MS, mergeGroupDemand, readGroupDemand, type Offer } from '../src/index.ts'
import { KEYS } from '../src/testing.ts'
import { endWith, gate, requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
/** Executions run until this gate opens. */
let over = gate()
const announced: AsyncDisposable[] = []
beforeAll(async () => {
  bench = await startBench()
})
beforeEach(() => {
  over = gate()
})
afterEach(async () => {
  over.open()
  await Promise.all(announced.splice(0).map((one) => one[Symbol.asyncDispose]()))
  await bench.clear()
})
afterAll(() => bench[Symbol.asyncDispose]())

const COMMON = ['program=script', 'language=python', 'network=none']
const WEAK: readonly Offer[] = [new Set([...COMMON, 'backend=process', 'isolation=jail'])]
const STRONG: readonly Offer[] = [
  new Set([...COMMON, 'backend=docker', 'isolation=jail', 'isolation=container']),
]

const onError = (error: unknown) => expect.fail(String(error))

function startWorker(group: string | undefined, offers: readonly Offer[], slots: number) {
  const workerId = newWorkerId('0123456789ab')
  if (group !== undefined)
    announced.push(
      announceVersion({
        redis: bench.redis,
        role: 'worker',
        id: workerId,
        version: '0',
        schema: 1,
        group,
        onError,
      }),
    )
  return bench.consumer({
    workerId,
    slots,
    offers: () => offers,
    async process(taken) {
      await over.opened
      await endWith('ok')(taken)
    },
  })
}

const beating = (count: number) =>
  vi.waitFor(async () => {
    expect(await bench.redis.zcard(KEYS.beats)).toBe(count)
    expect(await bench.redis.hlen(KEYS.versions)).toBe(announced.length)
  }, 20_000)

/** Waits until this number of executions of the lane are released or running. */
const outstanding = (count: number) =>
  vi.waitFor(async () => expect(await bench.redis.zcard(`${KEYS.out}interactive`)).toBe(count), 20_000)

/** `waiting` and `running` of each group with interactive executions. */
async function demand(): Promise<Record<string, [waiting: number, running: number]>> {
  const found = await readGroupDemand(bench.redis, LOCK_MS)
  return Object.fromEntries(
    found
      .filter(({ lane }) => lane === 'interactive')
      .map(({ group, waiting, running }) => [group, [Number(waiting.toFixed(6)), running]]),
  )
}

it('counts for each group what only it can run, and half of what two groups can run', async () => {
  const producer = bench.producer()
  startWorker('small', WEAK, 1)
  startWorker('large', STRONG, 1)
  await beating(2)
  const put = (count: number, backend?: string) =>
    Promise.all(
      Array.from({ length: count }, (_, n) =>
        producer.put(requestOf({ tenant_id: `t${n % 3}`, agent_id: `a${n % 4}`, backend }), {
          awaitReply: true,
        }),
      ),
    )
  expect(await demand()).toEqual({ small: [0, 0], large: [0, 0] })
  // For one slot, the queue releases up to two executions.
  const all: Accepted[] = [...(await put(2, 'docker')), ...(await put(2, 'process'))]
  await outstanding(4)
  all.push(...(await put(6, 'docker')), ...(await put(3, 'process')), ...(await put(5)))
  expect(await demand()).toEqual({ large: [6 + 2.5, 2], small: [3 + 2.5, 2] })
  over.open()
  for (const { execution_id } of all)
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  expect(await demand()).toEqual({ small: [0, 0], large: [0, 0] })
})

it('counts what both could run for one group alone once the other one drains', async () => {
  const producer = bench.producer()
  const small = startWorker('small', WEAK, 1)
  startWorker('large', STRONG, 1)
  await beating(2)
  for (let n = 0; n < 9; n++) await producer.put(requestOf({ tenant_id: `t${n}` }))
  await outstanding(4)
  expect(await demand()).toEqual({ large: [2.5, 2], small: [2.5, 2] })
  const drained = small.drain({ graceMs: 60_000 })
  // The draining worker finishes what it runs. What was released for it waits again.
  await outstanding(3)
  expect(await demand()).toEqual({ large: [6, 2] })
  over.open()
  await drained
})

it('leaves out what more workers would not start', async () => {
  const producer = bench.producer()
  startWorker('only', WEAK, 2)
  await beating(1)
  await producer.setTenantLimits('narrow', { weight: 1, concurrency: 3, max_queued: null })
  await producer.setTenantLimits('wide', { weight: 1, concurrency: 100, max_queued: null })
  // For two slots, the queue releases up to three executions.
  for (let n = 0; n < 3; n++) await producer.put(requestOf({ tenant_id: 'wide' }))
  await outstanding(3)
  for (let n = 0; n < 10; n++) await producer.put(requestOf({ tenant_id: 'narrow' }))
  expect(await demand()).toEqual({ only: [3, 3] })
  // Only the first of a session can start.
  for (let n = 0; n < 5; n++) await producer.put(requestOf({ tenant_id: 'wide', session: { key: 'one' } }))
  expect(await demand()).toEqual({ only: [4, 3] })
  await producer.put(requestOf({ tenant_id: 'wide', delay_ms: 3_600_000 }))
  expect(await demand()).toEqual({ only: [4, 3] })
})

it('divides what one kind can run among its groups by their slots, and by lane', async () => {
  const producer = bench.producer()
  startWorker('one', WEAK, 1)
  startWorker(undefined, WEAK, 3)
  bench.consumer({ slots: 4, lanes: ['routine'], offers: () => WEAK, process: endWith('ok') })
  await beating(3)
  for (let n = 0; n < 25; n++) await producer.put(requestOf({ tenant_id: `t${n}` }))
  await outstanding(5)
  expect(await demand()).toEqual({ one: [5, 1.25], default: [15, 3.75] })
})

it('says how long the longest-waiting of those next in turn has been due', async () => {
  const producer = bench.producer()
  startWorker('only', WEAK, 1)
  await beating(1)
  for (const tenant_id of ['first', 'second']) await producer.put(requestOf({ tenant_id }))
  await outstanding(2)
  const ageOf = async () => {
    const found = await readGroupDemand(bench.redis, LOCK_MS)
    return found.find(({ lane }) => lane === 'interactive')?.oldest_age_ms
  }
  expect(await ageOf()).toBeNull()
  const { execution_id } = await producer.put(requestOf())
  await producer.put(requestOf({ tenant_id: 'other' }))
  await bench.redis.zincrby(`${KEYS.waiting}interactive`, -60_000, execution_id)
  expect(await ageOf()).toBeGreaterThanOrEqual(60_000)
  expect(await ageOf()).toBeLessThan(90_000)
})

it.each([
  ['30 agents of a tenant', 60, (n: number) => ({ tenant_id: 'first', agent_id: `a${n % 30}` })],
  ['250 tenants', 750, (n: number) => ({ tenant_id: `t${n % 250}` })],
])('estimates the number from a sample when many wait: %s', async (_title, count, inputOf) => {
  const producer = bench.producer()
  startWorker('only', WEAK, 1)
  await beating(1)
  for (const tenant_id of ['first', 'second']) await producer.put(requestOf({ tenant_id }))
  await outstanding(2)
  await Promise.all(Array.from({ length: count }, (_, n) => producer.put(requestOf(inputOf(n)))))
  expect(await demand()).toEqual({ only: [count, 2] })
})

it('bounds the number of groups', () => {
  const one = { lane: 'interactive', waiting: 1, running: 0, oldest_age_ms: null } as const
  const many = Array.from({ length: 80 }, (_, n) => ({ ...one, group: `g${String(n).padStart(2, '0')}` }))
  const merged = mergeGroupDemand([many, many, [{ ...one, group: 'g00', oldest_age_ms: 7 }]])
  expect(merged).toHaveLength(64)
  expect(merged[0]).toEqual({ ...one, group: 'g00', waiting: 3, oldest_age_ms: 7 })
  expect(merged.at(-1)).toEqual({ ...one, group: 'g63', waiting: 2 })
})
