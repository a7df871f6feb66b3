/** Executions that wait for memory in the fair queue: order, position, ETA, and a worker's death. */
import type { Accepted, ExecutionRequestInput } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { endingsOf, expectExactBooks, fakeRequest } from './accounts.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
})
afterEach(() => fleet.stopWorkers())
afterAll(async () => fleet[Symbol.asyncDispose]())

const WORKER = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '8', COFFERDAM_MEMORY_BUDGET_MIB: '2560' }
const GENEROUS = {
  policy: { min_isolation: 'none' as const },
  caps: { tenant_daily: 100_000, agent_hourly: 100_000, concurrency: 64 },
}

const asking = (tenantId: string, memoryMib: number, sleepMs: number): ExecutionRequestInput => ({
  ...fakeRequest(tenantId, [{ sleep_ms: sleepMs }]),
  limits: { memory_mib: memoryMib },
})

/** Executions of a tenant that the scheduler has released and no worker has begun. */
const ON_THEIR_WAY = 4

const startedAtMs = async ({ execution_id }: Accepted): Promise<number> =>
  Date.parse((await fleet.client.get(execution_id))?.started_at ?? 'never')

it('keeps the fair order of large and small executions, with a matching position and ETA', async () => {
  await fleet.createTenant('large', GENEROUS)
  await fleet.createTenant('small', GENEROUS)
  await fleet.runWorker(WORKER)
  const LARGE_MS = 500
  // All are enqueued at once, and the large ones run from the start.
  const put = (count: number, request: ExecutionRequestInput): Promise<Accepted[]> =>
    Promise.all(Array.from({ length: count }, () => fleet.client.enqueue(request)))
  const large = await put(12, asking('large', 2048, LARGE_MS))
  // Enough small ones that both tenants have work during all three forecasts below.
  const small = await put(120, asking('small', 64, 50))

  // At three times, compares the forecast of the last large execution with its real start. Uses the median,
  // because the forecast of an execution about to be released depends on the running executions of both
  // tenants.
  const last = large.at(-1)
  if (last === undefined) throw new Error('unreachable')
  const promises: { atMs: number; state: Awaited<ReturnType<typeof fleet.client.get>> }[] = []
  for (const ended of [3, 4, 5]) {
    await endingsOf(fleet, large.slice(0, ended), 60_000)
    promises.push({ atMs: Date.now(), state: await fleet.client.get(last.execution_id) })
  }
  const inPlay = (await Promise.all(large.map((a) => fleet.client.get(a.execution_id)))).filter(
    (state) => state?.status === 'queued' && state.position === 0,
  )
  const results = await endingsOf(fleet, [...large, ...small], 120_000)
  expect(results.filter((r) => r.ending !== 'ok')).toEqual([])

  const startedMs = await startedAtMs(last)
  const ratios = promises.map(({ atMs, state }) => (state?.eta_ms ?? NaN) / (startedMs - atMs))
  const first = promises[0]?.state
  expect(first?.status).toBe('queued')
  expect(first?.position).toBeGreaterThanOrEqual(1)
  expect(first?.position).toBeLessThan(large.length + small.length)
  const middle = ratios.toSorted((a, b) => a - b)[ratios.length >> 1]
  expect(middle, ratios.join()).toBeGreaterThan(1 / 4)
  expect(middle, ratios.join()).toBeLessThan(4)
  // Only the execution that waits for memory and those that were released before it are at position 0.
  expect(inPlay.length).toBeLessThanOrEqual(ON_THEIR_WAY)

  const largeStarts = (await Promise.all(large.map(startedAtMs))).toSorted((a, b) => a - b)
  const smallStarts = await Promise.all(small.map(startedAtMs))
  // Neither tenant starves. Small executions delay the next large one by at most five usual gaps.
  const gaps = largeStarts.slice(1).map((at, n) => at - (largeStarts[n] ?? 0))
  const usual = gaps.toSorted((a, b) => a - b)[gaps.length >> 1] ?? NaN
  expect(Math.max(...gaps)).toBeLessThan(usual * 5)
  // When the last large execution starts, small ones should have run for about as long as large ones. The
  // test accepts a third of that. It checks nothing if nearly all small ones have started by then.
  const msOf = (some: typeof results): number => some.reduce((sum, { duration_ms }) => sum + duration_ms, 0)
  const served = results
    .slice(large.length)
    .filter((_, n) => (smallStarts[n] ?? NaN) < (largeStarts.at(-1) ?? 0))
  if (served.length < small.length - ON_THEIR_WAY)
    expect(msOf(served)).toBeGreaterThan(msOf(results.slice(0, large.length - 1)) / 3)
  // Only large ones that were released earlier or waited for memory may start before the first small one.
  expect(Math.min(...smallStarts)).toBeLessThan(largeStarts[5] ?? 0)
  await expectExactBooks(fleet, 'large', large, results.slice(0, large.length))
}, 180_000)

it('refuses an execution that needs more memory than the worker has, with the reason', async () => {
  await fleet.createTenant('giant', GENEROUS)
  await fleet.runWorker(WORKER)
  const giant = await fleet.client.run(asking('giant', 3072, 0), { timeoutMs: 30_000 })
  expect(giant).toMatchObject({ ending: 'provisioning', reason: 'memory_budget_exceeded' })
  expect(giant.error_message).toContain('3072 MiB')
  expect(giant.error_message).toContain('2560 MiB')
})

it('shows an execution that waits for memory as queued, and a killed worker loses none', async () => {
  await fleet.createTenant('waits', GENEROUS)
  const victim = await fleet.startWorker(WORKER)
  const holder = await fleet.client.enqueue(asking('waits', 2048, 600_000))
  for await (const { event } of fleet.client.stream(holder.execution_id)) if (event.type === 'started') break
  const waiting: Accepted[] = []
  for (let n = 0; n < 6; n++) waiting.push(await fleet.client.enqueue(asking('waits', 1024, 1)))
  const states = () => Promise.all(waiting.map((a) => fleet.client.get(a.execution_id)))
  await expect.poll(async () => (await states())[5]?.position, { timeout: 20_000 }).toBeGreaterThan(0)
  for (const state of await states()) expect(state).toMatchObject({ status: 'queued', started_at: null })
  await victim.kill()
  await fleet.runWorker(WORKER)
  const results = await endingsOf(fleet, [holder, ...waiting], 90_000)
  expect(results.map((r) => r.ending)).toEqual(['worker_lost', ...waiting.map(() => 'ok')])
  expect(results.map((r) => r.attempt)).toEqual(results.map(() => 1))
  await expectExactBooks(fleet, 'waits', [holder, ...waiting], results)
}, 180_000)
