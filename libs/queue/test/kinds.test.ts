/**
 * A fleet with several kinds of workers. Each execution goes to a worker that has what it needs, and is
 * refused only if no worker has it.
 */
import { newWorkerId, type Accepted } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import type { Offer, Taken } from '../src/index.ts'
import { KEYS } from '../src/testing.ts'
import { endWith, gate, requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

const COMMON = ['program=script', 'language=python', 'network=none']
const offer = (...words: string[]): readonly Offer[] => [new Set([...COMMON, ...words])]
const WEAK = offer('backend=process', 'isolation=jail')
const STRONG = offer('backend=docker', 'isolation=jail', 'isolation=container')
const REMOTE = offer('backend=remote', 'isolation=jail', 'isolation=container', 'isolation=microvm')

/** Notes who ran what, as `<backend of the request> <worker>`. */
function fleet() {
  const ran: string[] = []
  const held = { process: endWith('ok', 5) }
  const start = (name: string, offers: readonly Offer[], slots = 2) =>
    bench.consumer({
      workerId: newWorkerId('0123456789ab'),
      slots,
      offers: () => offers,
      async process(taken: Taken) {
        ran.push(`${taken.request.backend} ${name}`)
        await held.process(taken)
      },
    })
  const known = (count: number) =>
    vi.waitFor(async () => expect(await bench.redis.zcard(KEYS.kinds)).toBe(count), 20_000)
  return { ran, held, start, known }
}

it('gives each of three kinds of workers only the executions that it can run', async () => {
  const { ran, start, known } = fleet()
  const producer = bench.producer()
  start('weak', WEAK)
  start('strong', STRONG)
  start('remote', REMOTE)
  await known(3)
  const asked = Array.from({ length: 90 }, (_, n) =>
    requestOf({
      tenant_id: `t${n % 2}`,
      agent_id: `a${n % 4}`,
      backend: ['process', 'docker', 'remote'][n % 3]!,
    }),
  )
  const accepted = await Promise.all(asked.map((request) => producer.put(request, { awaitReply: true })))
  for (const { execution_id } of accepted)
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  expect([...new Set(ran)].toSorted()).toEqual(['docker strong', 'process weak', 'remote remote'])
})

it('gives what any worker can run to the strongest one that has a free slot', async () => {
  const { ran, held, start, known } = fleet()
  const producer = bench.producer()
  const over = gate()
  held.process = async (taken) => {
    await over.opened
    await endWith('ok')(taken)
  }
  start('weak', WEAK, 1)
  start('strong', STRONG, 1)
  await known(2)
  const accepted = []
  for (const worker of ['strong', 'weak']) {
    accepted.push(await producer.put(requestOf(), { awaitReply: true }))
    await vi.waitFor(() => expect(ran.at(-1)).toBe(`auto ${worker}`), 20_000)
  }
  over.open()
  for (const { execution_id } of accepted)
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
})

it('does not let a backlog for one kind of worker, or of one tenant, block the others', async () => {
  const { ran, held, start, known } = fleet()
  const producer = bench.producer()
  start('weak', WEAK)
  start('strong', STRONG)
  await known(2)
  const stuck = gate()
  held.process = async (taken) => {
    if (taken.request.agent_id === 'long') await stuck.opened
    await endWith('ok', 50)(taken)
  }
  const flood = await Promise.all(
    Array.from({ length: 40 }, () =>
      producer.put(requestOf({ tenant_id: 'heavy', agent_id: 'long', backend: 'docker' })),
    ),
  )
  const light = await producer.put(requestOf({ tenant_id: 'heavy', backend: 'process' }), {
    awaitReply: true,
  })
  expect(await producer.wait(light.execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  // Position and ETA count only the 2 slots that can serve this execution. The fair order puts none of the 40
  // waiting executions before those of the other tenant.
  const other = await producer.put(requestOf({ tenant_id: 'light', backend: 'docker' }), { awaitReply: true })
  expect(other.position).toBeLessThan(5)
  stuck.open()
  expect(await producer.wait(other.execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  expect(ran.filter((what) => what === 'docker strong').length).toBeLessThan(20)
  for (const { execution_id } of flood) await producer.cancel(execution_id)
})

it('counts for a position only what runs before it on workers that can run it', async () => {
  const { held, start, known } = fleet()
  const producer = bench.producer()
  const stuck = gate()
  const light = gate()
  held.process = async (taken) => {
    await (taken.request.backend === 'docker' ? stuck : light).opened
    await endWith('ok', 10)(taken)
  }
  start('weak', WEAK, 1)
  start('strong', STRONG, 8)
  await known(2)
  const put = (tenant_id: string, backend: string) =>
    producer.put(requestOf({ tenant_id, backend }), { awaitReply: true })
  const outstanding = (count: number) =>
    vi.waitFor(async () => expect(await bench.redis.zcard(`${KEYS.out}interactive`)).toBe(count), 20_000)
  // All eight slots of the other kind are taken, and two more are released for it than it can run.
  const flood = await Promise.all(Array.from({ length: 40 }, (_, n) => put(`heavy${n % 8}`, 'docker')))
  await outstanding(10)
  // One runs and one is released, which fills the window of one slot. A tenant with limits of its own need
  // not leave slots to others.
  await producer.setTenantLimits('light', { weight: 1, concurrency: 10, max_queued: null })
  const first = [await put('light', 'process'), await put('light', 'process')]
  await outstanding(12)
  const third = await put('light', 'process')
  expect(third).toMatchObject({ status: 'queued', position: 1 })
  light.open()
  for (const { execution_id } of [...first, third])
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  stuck.open()
  for (const { execution_id } of flood) await producer.cancel(execution_id)
})

it('refuses what no worker has, and tells a worker if another kind of worker has it', async () => {
  const { held, start, known } = fleet()
  const producer = bench.producer()
  const routed: boolean[] = []
  held.process = async (taken) => {
    const need = taken.request.backend === 'nowhere' ? 'backend=nowhere' : 'isolation=container'
    // On the first take, ask to route the execution to a worker that has `need`.
    if (taken.fence === 1) routed.push(await taken.route(need))
    if (routed.at(-1) !== true || taken.fence > 1) await endWith('provisioning')(taken)
  }
  start('weak', WEAK)
  await known(1)
  const wait = async (backend: string) => {
    const { execution_id } = await producer.put(requestOf({ backend }), { awaitReply: true })
    return await producer.wait(execution_id, { timeoutMs: 30_000 })
  }
  expect(await wait('nowhere')).toMatchObject({ ending: 'provisioning' })
  expect(await wait('process')).toMatchObject({ ending: 'provisioning' })
  start('strong', STRONG)
  await known(2)
  expect(await wait('nowhere')).toMatchObject({ ending: 'provisioning' })
  expect(await wait('process')).toMatchObject({ ending: 'provisioning' })
  expect(routed).toEqual([false, false, false, true])
})

it('keeps an execution waiting while the only worker that can run it restarts', async () => {
  const { ran, start, known } = fleet()
  const producer = bench.producer()
  start('weak', WEAK)
  const strong = start('strong', STRONG)
  await known(2)
  await strong.drain({ graceMs: 0 })
  const { execution_id } = await producer.put(requestOf({ backend: 'docker' }), { awaitReply: true })
  const later = await producer.put(requestOf({ backend: 'process' }), { awaitReply: true })
  expect(await producer.wait(later.execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  expect(await producer.get(execution_id)).toMatchObject({ status: 'queued' })
  start('strong again', STRONG)
  expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  expect(ran).toEqual(['process weak', 'docker strong again'])
})

it('keeps executions of every kind waiting when the whole fleet was away for long', async () => {
  const { ran, start, known } = fleet()
  const producer = bench.producer()
  const both = [start('weak', WEAK), start('strong', STRONG)]
  await known(2)
  for (const worker of both) await worker.drain({ graceMs: 0 })
  const { execution_id } = await producer.put(requestOf({ backend: 'docker' }), { awaitReply: true })
  const other = await producer.put(requestOf({ backend: 'process' }), { awaitReply: true })
  // Ten minutes pass, far more than kindPatienceMs, for which a kind without workers is remembered.
  for (const kind of await bench.redis.zrange(KEYS.kinds, 0, '-1'))
    await bench.redis.zincrby(KEYS.kinds, -600_000, kind)
  start('weak again', WEAK)
  expect(await producer.wait(other.execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  expect(await producer.get(execution_id)).toMatchObject({ status: 'queued' })
  expect(await producer.whyWaiting(execution_id)).toMatchObject([
    { code: 'no_worker', need: expect.stringContaining('backend=docker'), until: expect.any(Number) },
  ])
  start('strong again', STRONG)
  expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  expect(ran).toEqual(['process weak again', 'docker strong again'])
})

it('continues a session on its worker while executions for another kind of worker wait', async () => {
  const { held, start, known } = fleet()
  const producer = bench.producer()
  start('weak', WEAK, 1)
  start('strong', STRONG, 1)
  await known(2)
  const stuck = gate()
  held.process = async (taken) => {
    if (taken.request.backend === 'docker') await stuck.opened
    await endWith('ok')(taken)
  }
  const docker = await Promise.all(
    Array.from({ length: 4 }, (_, n) => producer.put(requestOf({ tenant_id: `t${n}`, backend: 'docker' }))),
  )
  const turns = await Promise.all(
    Array.from({ length: 4 }, () =>
      producer.put(requestOf({ backend: 'process', session: { key: 'one' } }), { awaitReply: true }),
    ),
  )
  for (const { execution_id } of turns)
    expect(await producer.wait(execution_id, { timeoutMs: 20_000 })).toMatchObject({ ok: true })
  stuck.open()
  for (const { execution_id } of docker)
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
})

it("keeps a tenant's place in the order of a kind when that kind leaves and comes back", async () => {
  const { ran, held, start, known } = fleet()
  const producer = bench.producer()
  let offers = STRONG
  bench.consumer({
    workerId: newWorkerId('0123456789ab'),
    slots: 1,
    offers: () => offers,
    async process(taken) {
      ran.push(taken.request.tenant_id)
      await held.process(taken)
    },
  })
  await known(1)
  const put = (tenant_id: string, backend?: string) =>
    producer.put(requestOf({ tenant_id, backend }), { awaitReply: true })
  const over = async ({ execution_id }: Accepted) =>
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  // The worker charges one hour of slot time to this tenant. The short runs after it move the kind's clock to
  // this tenant's virtual time. They also lower the expected length of a run again.
  held.process = endWith('ok', 3_600_000)
  await over(await put('before'))
  held.process = endWith('ok')
  for (const short of await Promise.all(Array.from({ length: 50 }, () => put('before')))) await over(short)
  // A tenant that is new to the kind starts at that clock.
  await over(await put('between'))
  start('weak', WEAK)
  await known(2)
  offers = WEAK
  await known(1)
  offers = STRONG
  await known(2)
  ran.length = 0
  const free = gate()
  held.process = async (taken) => {
    await free.opened
    await endWith('ok')(taken)
  }
  const others = await Promise.all(Array.from({ length: 20 }, (_, n) => put(`new${n % 5}`, 'docker')))
  const light = await put('between', 'docker')
  free.open()
  await over(light)
  expect(ran.length).toBeLessThan(12)
  for (const other of others) await over(other)
})
