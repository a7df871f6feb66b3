/**
 * Counters also match the rows after a late charge. A worker stalls before its admission or while its sandbox
 * opens, and another worker ends the attempt uncharged: the stalled worker's charge is then refunded. If
 * Redis loses everything while a program runs, the worker charges the attempt again.
 */
import { HOUR_MS, untilWindowLasts } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import type { Accepted } from '@cofferdam/contract'
import { startFleet, type Fleet } from '../fleet.ts'
import { auditRows, endingsOf, expectExactBooks, expectNothingHeld, fakeRequest } from './accounts.ts'
import { startStoppingWorker, type StoppingWorker } from './start-stopping-worker.ts'
import { tenantOf, type Point } from './stopping-worker.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
})
afterAll(async () => fleet[Symbol.asyncDispose]())
// The hourly cap must not start anew during a test.
beforeEach(() => untilWindowLasts(HOUR_MS, 120_000))

const WORKER = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '8' }
/** Points before user code. At the last two the worker had charged the attempt before it stalled. */
const UNBEGUN: readonly Point[] = ['after take', 'after policy', 'after admit', 'after open']

/**
 * Two stalled workers. One learns at once that it lost its executions. The other learns it only when it tries
 * to begin a program.
 */
const SLEEPERS = [
  { prefix: 'hears', env: {} },
  { prefix: 'deaf', env: { STOP_DEAF: '1' } },
]

it('refunds the charge of a stalled worker if another worker has refused the attempt', async () => {
  const tenants = SLEEPERS.flatMap(({ prefix }) => UNBEGUN.map((point) => tenantOf(prefix, point)))
  const accepted: Accepted[] = []
  const sleepers: StoppingWorker[] = []
  for (const { prefix, env } of SLEEPERS) {
    // The first worker has one slot for each of its executions, so it claims none of the second worker's.
    const sleeper = await startStoppingWorker(fleet, { ...WORKER, ...env, COFFERDAM_SLOTS: '4' }, prefix)
    sleepers.push(sleeper)
    for (const point of UNBEGUN) {
      const tenant = tenantOf(prefix, point)
      await fleet.createTenant(tenant, { policy: { min_isolation: 'none' } })
      accepted.push(await fleet.client.enqueue(fakeRequest(tenant, [{ print: 'never' }])))
    }
    await sleeper.stoppedAt(UNBEGUN)
  }
  expect(await Promise.all(tenants.map(chargedRuns))).toEqual([0, 0, 1, 1, 0, 0, 1, 1])

  for (const { worker } of sleepers) worker.process.kill('SIGSTOP')
  for (const tenant of tenants)
    await fleet.store.tenants.setPolicy(tenant, { sandbox_enabled: false }, 'test')
  const heir = await fleet.startWorker(WORKER)
  const results = await endingsOf(fleet, accepted, 60_000)
  expect(results.map(({ ending, attempt }) => [ending, attempt])).toEqual(
    Array(tenants.length).fill(['provisioning', 1]),
  )
  const none = Array(tenants.length).fill(0)
  await expect.poll(() => Promise.all(tenants.map(chargedRuns)), { timeout: 20_000 }).toEqual(none)

  for (const sleeper of sleepers) {
    sleeper.worker.process.kill('SIGCONT')
    await sleeper.abortedAt(UNBEGUN)
    await sleeper.goOn(UNBEGUN)
  }
  expect(await Promise.all(tenants.map(chargedRuns))).toEqual(none)
  expect(await endingsOf(fleet, accepted, 10_000)).toEqual(results)
  for (const [n, tenant] of tenants.entries())
    await expectExactBooks(fleet, tenant, accepted.slice(n, n + 1), results.slice(n, n + 1))
  await expectNothingHeld(fleet)
  await Promise.all([heir, ...sleepers.map(({ worker }) => worker)].map((worker) => worker.stop()))
})

it('counts a run that ends after Redis lost everything and its counters were rebuilt', async () => {
  const tenant = tenantOf('lost', 'after end')
  await fleet.createTenant(tenant, {
    policy: { min_isolation: 'none' },
    caps: { tenant_daily: 3, agent_hourly: 3, tenant_daily_cpu_seconds: 1000 },
  })
  const enqueue = () => fleet.client.enqueue(fakeRequest(tenant, [{ usage: { cpu_ms: 40 } }]))
  // This worker's only slot will be taken, so it claims nothing else. It ignores the signal that it lost the
  // execution, like a worker whose program ends before it learns that.
  const stopping = await startStoppingWorker(
    fleet,
    { ...WORKER, COFFERDAM_SLOTS: '1', STOP_DEAF: '1' },
    'lost',
  )
  const inFlight = await enqueue()
  await stopping.stoppedAt(['after end'])
  await fleet.restartRedis()
  const worker = await fleet.startWorker(WORKER)
  const later = [await enqueue(), await enqueue()]
  expect((await endingsOf(fleet, later, 60_000)).map(({ ending }) => ending)).toEqual(['ok', 'ok'])
  expect(await chargedRuns(tenant)).toBe(2)

  await stopping.goOn(['after end'])
  const rows = await auditRows(fleet, tenant)
  expect(rows.map(({ execution_id }) => execution_id).sort()).toEqual(
    [inFlight, ...later].map(({ execution_id }) => execution_id).sort(),
  )
  expect(rows.every(({ quota_charged }) => quota_charged)).toBe(true)
  // The worker that ran the program could not settle the charge, so admission corrects the counter from the
  // audit rows.
  await expect
    .poll(async () => fleet.admission.usage(tenant, 'a'), { timeout: 60_000, interval: 500 })
    .toMatchObject({
      tenant_daily: { used: 3 },
      agent_hourly: { used: 3 },
      tenant_daily_cpu: { used: 0.12, reserved: 0 },
    })
  const [refused] = await endingsOf(fleet, [await enqueue()], 60_000)
  expect(refused).toMatchObject({ ending: 'cap_exceeded', dimension: 'tenant_daily' })
  await expectNothingHeld(fleet)
  await Promise.all([worker.stop(), stopping.worker.stop()])
})

const chargedRuns = async (tenant: string): Promise<number> =>
  (await fleet.admission.usage(tenant)).tenant_daily.used
