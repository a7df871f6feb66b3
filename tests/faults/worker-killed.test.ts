import { inLongTier } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Accepted } from '@cofferdam/contract'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'
import { auditRows, endingsOf, expectExactBooks, fakeRequest } from './accounts.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
})
afterAll(async () => fleet[Symbol.asyncDispose]())

const WORKER = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '8' }
const GENEROUS = {
  policy: { min_isolation: 'none' as const },
  caps: { tenant_daily: 100_000, agent_hourly: 100_000, concurrency: 64 },
}
/** Lock (9 s) + stalled check (3 s) + the sweep, on a slow machine. */
const RECOVERY_MS = 90_000

inLongTier(
  'every execution has one ending and one audit row although workers are killed',
  async () => {
    await fleet.createTenant('killed', GENEROUS)
    const workers: FleetWorker[] = [await fleet.startWorker(WORKER), await fleet.startWorker(WORKER)]
    const accepted: Accepted[] = []
    for (let i = 0; i < 300; i++)
      accepted.push(
        await fleet.client.enqueue(
          fakeRequest('killed', [{ sleep_ms: i % 40 }, { print: `${i}` }], `agent-${i % 7}`),
        ),
      )

    for (let kills = 0; kills < 3; kills++) {
      await expect
        .poll(async () => (await auditRows(fleet, 'killed')).length, { timeout: 60_000 })
        .toBeGreaterThan(60 * (kills + 1))
      await workers.shift()?.kill()
      workers.push(await fleet.startWorker(WORKER))
    }

    const results = await endingsOf(fleet, accepted, RECOVERY_MS)
    const rows = await expectExactBooks(fleet, 'killed', accepted, results)
    expect([...new Set(rows.map((row) => row.ending))].sort()).toEqual(
      [...new Set(['ok', ...rows.filter((r) => r.ending !== 'ok').map(() => 'worker_lost')])].sort(),
    )
    await Promise.all(workers.map((worker) => worker.stop()))
  },
  300_000,
)

/** Waits for output, which shows that the worker has handed the program over. */
async function hasPrinted({ execution_id }: Accepted): Promise<void> {
  for await (const { event } of fleet.client.stream(execution_id)) if (event.type === 'output') break
}

it('an execution that began is run again only if its request opted into retries', async () => {
  await fleet.createTenant('lost', GENEROUS)
  const victim = await fleet.startWorker(WORKER)
  const once = await fleet.client.enqueue(fakeRequest('lost', [{ print: 'begun' }, { sleep_ms: 600_000 }]))
  await hasPrinted(once)
  const again = await fleet.client.enqueue({
    // Long enough that the program still runs when its worker is killed.
    ...fakeRequest('lost', [{ print: 'begun' }, { sleep_ms: 12_000 }]),
    retry: { max_attempts: 2, on: ['worker_lost'] },
  })
  await hasPrinted(again)
  await victim.kill()
  const heir = await fleet.startWorker(WORKER)

  const [lost, retried] = await endingsOf(fleet, [once, again], RECOVERY_MS)
  expect(lost).toMatchObject({
    ending: 'worker_lost',
    exit_status: 'error',
    error: 'SandboxError',
    attempt: 1,
  })
  expect(retried).toMatchObject({ ending: 'ok', attempt: 2, stdout: 'begun\n' })

  const rows = await auditRows(fleet, 'lost')
  // The lost attempt began when its worker claimed it, not when another worker recovered it.
  const lostRow = rows.find((row) => row.execution_id === once.execution_id)
  expect(lostRow?.queue_ms).toBeLessThan(lostRow?.duration_ms ?? 0)
  expect(lostRow?.duration_ms).toBeGreaterThan(5000)
  expect(rows.map((row) => [row.execution_id, row.attempt, row.ending, row.quota_charged]).sort()).toEqual(
    [
      [once.execution_id, 1, 'worker_lost', true],
      [again.execution_id, 1, 'worker_lost', true],
      [again.execution_id, 2, 'ok', true],
    ].sort(),
  )
  await heir.stop()
}, 300_000)

it('a worker that is asked to stop requeues what it has not begun and ends what it has', async () => {
  await fleet.createTenant('drained', GENEROUS)
  const worker = await fleet.startWorker({ ...WORKER, COFFERDAM_SLOTS: '2', COFFERDAM_DRAIN_MS: '300' })
  const accepted: Accepted[] = []
  for (let i = 0; i < 6; i++)
    accepted.push(await fleet.client.enqueue(fakeRequest('drained', [{ sleep_ms: i < 2 ? 600_000 : 1 }])))
  for (const { execution_id } of accepted.slice(0, 2))
    for await (const { event } of fleet.client.stream(execution_id)) if (event.type === 'started') break
  expect(await worker.stop()).toBe(0)

  const heir = await fleet.startWorker(WORKER)
  const results = await endingsOf(fleet, accepted, RECOVERY_MS)
  expect(results.map((r) => [r.ending, r.reason ?? null])).toEqual([
    ['worker_lost', 'drained'],
    ['worker_lost', 'drained'],
    ['ok', null],
    ['ok', null],
    ['ok', null],
    ['ok', null],
  ])
  await expectExactBooks(fleet, 'drained', accepted, results)
  await heir.stop()
}, 300_000)
