/** What `whyWaiting` says of an execution, each reason made to happen. */
import { newExecutionId, newWorkerId } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import type { Producer } from '../src/index.ts'
import { endWith, gate, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
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

const put = async (producer: Producer, input: Parameters<typeof requestOf>[0] = {}) =>
  (await producer.put(requestOf(input))).execution_id

/** The codes, then the facts. */
const whyOf = async (producer: Producer, id: Awaited<ReturnType<typeof put>>) => {
  const facts = (await producer.whyWaiting(id)) ?? []
  return { codes: facts.map(({ code }) => code), facts }
}

/** Starts a worker with `slots` whose executions begin and then wait until `proceed` opens. */
function busyWorker(slots = 1, begins = true) {
  const proceed = gate()
  gates.push(proceed)
  const begun: string[] = []
  const workerId = newWorkerId('0123456789ab')
  bench.consumer({
    slots,
    workerId,
    async process(taken) {
      if (begins) await taken.begin(sandboxRef(), SANDBOX_INFO)
      begun.push(taken.executionId)
      await proceed.opened
      await endWith('ok')(taken)
    },
  })
  return {
    proceed,
    begun,
    workerId,
    took: (count: number) => vi.waitFor(() => expect(begun).toHaveLength(count), SOON),
  }
}

it('knows nothing of an unknown execution, and no reason for one that has begun or ended', async () => {
  const producer = bench.producer()
  expect(await producer.whyWaiting(newExecutionId())).toBeNull()
  const { proceed, took } = busyWorker()
  const id = await put(producer)
  await took(1)
  expect(await producer.whyWaiting(id)).toEqual([])
  proceed.open()
  expect(await producer.wait(id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  expect(await producer.whyWaiting(id)).toEqual([])
})

it('names the moment of a delay', async () => {
  const producer = bench.producer()
  const before = Date.now()
  const id = await put(producer, { delay_ms: 60_000 })
  const { facts } = await whyOf(producer, id)
  expect(facts).toMatchObject([{ code: 'delayed', returned: false }])
  const [{ until } = { until: 0 }] = facts as { until: number }[]
  expect(until).toBeGreaterThanOrEqual(before + 60_000 - 1000)
  expect(until).toBeLessThan(Date.now() + 61_000)
})

it('names what no live worker has', async () => {
  const producer = bench.producer()
  const id = await put(producer, { backend: 'docker' })
  expect((await whyOf(producer, id)).facts).toMatchObject([
    { code: 'no_worker', fleet_workers: 0, need: expect.stringContaining('backend=docker') },
  ])
})

it('names the place in the fleet, the turn among the agents, and the limit of the tenant', async () => {
  const producer = bench.producer()
  await producer.setTenantLimits('acme', { weight: 2, concurrency: 1, max_queued: null })
  const { took } = busyWorker()
  await put(producer)
  await took(1)
  const other = await put(producer, { agent_id: 'agent-2' })
  const [first, second] = [await put(producer), await put(producer)]
  expect((await whyOf(producer, first)).facts).toMatchObject([
    { code: 'tenant_concurrency', running: 1, limit: 1, since: expect.any(Number) },
    { code: 'agent_turn', ahead: 0, other_agents: 1 },
    { code: 'turn', weight: 2, fleet_slots: 1 },
  ])
  expect((await whyOf(producer, second)).facts).toMatchObject([
    { code: 'tenant_concurrency' },
    { code: 'agent_turn', ahead: 1, other_agents: 1 },
    { code: 'turn' },
  ])
  expect((await whyOf(producer, other)).codes).toEqual(['tenant_concurrency', 'agent_turn', 'turn'])
})

it('names the next free slot once an execution is released', async () => {
  const producer = bench.producer()
  const { took } = busyWorker()
  await put(producer)
  await took(1)
  const released = await put(producer, { tenant_id: 'globex' })
  await vi.waitFor(
    async () =>
      expect((await whyOf(producer, released)).facts).toMatchObject([
        { code: 'worker_slot', ahead: 0, fleet_slots: 1, fleet_running: 2 },
      ]),
    SOON,
  )
})

it('names the execution before it in its session', async () => {
  const producer = bench.producer()
  const { took, proceed, begun } = busyWorker()
  const session = { key: 'chat' }
  const first = await put(producer, { session })
  await took(1)
  const [second, third] = [await put(producer, { session }), await put(producer, { session })]
  expect((await whyOf(producer, second)).facts).toMatchObject([
    { code: 'session_turn', execution_id: first, ahead: 1 },
  ])
  expect((await whyOf(producer, third)).facts).toMatchObject([{ code: 'session_turn', ahead: 2 }])
  proceed.open()
  expect(await producer.wait(third, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  expect(begun).toEqual([first, second, third])
})

it('names the worker that has the sandbox of its session while that worker is busy', async () => {
  const producer = bench.producer()
  const blocked = gate()
  const begun: string[] = []
  const workerId = newWorkerId('0123456789ab')
  bench.consumer({
    slots: 1,
    workerId,
    async process(taken) {
      begun.push(taken.executionId)
      if (taken.request.agent_id === 'slow') await blocked.opened
      await endWith('ok')(taken)
    },
  })
  const session = { key: 'chat' }
  const first = await put(producer, { session })
  expect(await producer.wait(first, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  const slow = await put(producer, { agent_id: 'slow' })
  await vi.waitFor(() => expect(begun).toEqual([first, slow]), SOON)
  const next = await put(producer, { session })
  expect((await whyOf(producer, next)).facts).toMatchObject([
    { code: 'session_worker', worker_id: workerId, ahead: 0 },
  ])
  blocked.open()
  expect(await producer.wait(next, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
})

it.each([
  ['defer', ['tenant_parked', 'turn']],
  ['putOff', ['delayed']],
] as const)('names the moment until which a worker put it back (%s)', async (how, codes) => {
  const producer = bench.producer()
  bench.consumer({ process: async (taken) => taken[how](taken.nowMs() + 60_000, 'no room') })
  const id = await put(producer)
  await vi.waitFor(async () => expect((await whyOf(producer, id)).codes).toEqual(codes), SOON)
  const { facts } = await whyOf(producer, id)
  const [{ until } = { until: 0 }] = facts as { until?: number }[]
  expect(until).toBeGreaterThan(Date.now() + 30_000)
})

it('names the worker that has taken it and has not begun', async () => {
  const producer = bench.producer()
  const { workerId, took } = busyWorker(1, false)
  const id = await put(producer)
  await took(1)
  expect((await whyOf(producer, id)).facts).toMatchObject([{ code: 'starting', worker_id: workerId }])
})
