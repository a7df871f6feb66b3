/**
 * A worker sleeps after the take and before its admission, or while its sandbox is made, and its heir ends the attempt
 * uncharged. What the sleeper is charged when it goes on is given back: counters say what the rows say.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Accepted } from '@cofferdam/contract'
import { startFleet, type Fleet } from '../fleet.ts'
import { endingsOf, expectExactBooks, expectNothingHeld, fakeRequest } from './accounts.ts'
import { startStoppingWorker } from './start-stopping-worker.ts'
import { tenantOf, type Point } from './stopping-worker.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
})
afterAll(async () => fleet[Symbol.asyncDispose]())

const WORKER = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '8' }
/** Before user code: at the last two the sleeper was charged before it slept. */
const UNBEGUN: readonly Point[] = ['after take', 'after policy', 'after admit', 'after open']

it.each([
  { name: 'that hears on waking what it lost', prefix: 'hears', env: {} },
  { name: 'that hears it only when it begins', prefix: 'deaf', env: { STOP_DEAF: '1' } },
])(
  'takes back what a sleeper is charged after its heir refused the attempt, of one $name',
  async (sleeper) => {
    const { prefix, env } = sleeper
    const tenants = UNBEGUN.map((point) => tenantOf(prefix, point))
    const stopping = await startStoppingWorker(fleet, { ...WORKER, ...env }, prefix)
    const accepted: Accepted[] = []
    for (const tenant of tenants) {
      await fleet.createTenant(tenant, { policy: { min_isolation: 'none' } })
      accepted.push(await fleet.client.enqueue(fakeRequest(tenant, [{ print: 'never' }])))
    }
    await stopping.stoppedAt(UNBEGUN)
    expect(await Promise.all(tenants.map(chargedRuns))).toEqual([0, 0, 1, 1])

    stopping.worker.process.kill('SIGSTOP')
    for (const tenant of tenants)
      await fleet.store.tenants.setPolicy(tenant, { sandbox_enabled: false }, 'test')
    const heir = await fleet.startWorker(WORKER)
    const results = await endingsOf(fleet, accepted, 60_000)
    expect(results.map(({ ending, attempt }) => [ending, attempt])).toEqual(
      Array(4).fill(['provisioning', 1]),
    )
    await expect.poll(() => Promise.all(tenants.map(chargedRuns)), { timeout: 20_000 }).toEqual([0, 0, 0, 0])

    stopping.worker.process.kill('SIGCONT')
    await stopping.abortedAt(UNBEGUN)
    await stopping.goOn(UNBEGUN)
    expect(await Promise.all(tenants.map(chargedRuns))).toEqual([0, 0, 0, 0])
    expect(await endingsOf(fleet, accepted, 10_000)).toEqual(results)
    for (const [n, tenant] of tenants.entries())
      await expectExactBooks(fleet, tenant, accepted.slice(n, n + 1), results.slice(n, n + 1))
    await expectNothingHeld(fleet)
    await Promise.all([heir.stop(), stopping.worker.stop()])
  },
  120_000,
)

const chargedRuns = async (tenant: string): Promise<number> =>
  (await fleet.admission.usage(tenant)).tenant_daily.used
