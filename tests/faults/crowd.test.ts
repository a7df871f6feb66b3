import { createQueueClient } from '@cofferdam/client/queue'
import type { Accepted } from '@cofferdam/contract'
import { isLongTier } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { auditRows, endingsOf, expectExactBooks, fakeRequest } from './accounts.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
})
afterAll(async () => fleet[Symbol.asyncDispose]())

const WORKER = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '8' }
const policy = { min_isolation: 'none' as const }

const [PRODUCERS, WORKERS] = isLongTier() ? [32, 4] : [8, 2]

it(`keeps exact counts with ${PRODUCERS} producers, ${WORKERS} workers and a low cap`, async () => {
  const EACH = 20
  const CAP = PRODUCERS * 15
  await fleet.createTenant('crowd', { policy, caps: { tenant_daily: CAP, agent_hourly: 100_000 } })
  await Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker(WORKER)))
  const perProducer = await Promise.all(
    Array.from({ length: PRODUCERS }, async (_, p) => {
      await using client = createQueueClient({ redisUrl: fleet.redisUrl })
      const accepted: Accepted[] = []
      for (let i = 0; i < EACH; i++)
        accepted.push(await client.enqueue(fakeRequest('crowd', [{ print: `${p}.${i}` }], `agent-${p % 5}`)))
      return accepted
    }),
  )
  const accepted = perProducer.flat()
  const results = await endingsOf(fleet, accepted, 120_000)
  expect(results.filter((r) => r.ending === 'ok')).toHaveLength(CAP)
  expect(results.filter((r) => r.ending === 'cap_exceeded')).toHaveLength(PRODUCERS * EACH - CAP)
  await expectExactBooks(fleet, 'crowd', accepted, results)
})

it('a long backlog of one tenant does not delay another tenant', async () => {
  const generous = { tenant_daily: 100_000, agent_hourly: 100_000 }
  await fleet.createTenant('flood', { policy, caps: generous })
  await fleet.createTenant('light', { policy, caps: generous })
  // Many seconds of work for every slot, enqueued at once.
  const flood = await Promise.all(
    Array.from({ length: WORKERS * 100 }, (_, i) =>
      fleet.client.enqueue(fakeRequest('flood', [{ sleep_ms: 2000 }], `agent-${i % 100}`)),
    ),
  )
  const lights = Array.from({ length: 5 }, () =>
    fleet.client.run(fakeRequest('light', []), { timeoutMs: 60_000 }),
  )
  expect((await Promise.all(lights)).every((light) => light.ok)).toBe(true)
  // The last execution of the flood has not begun. If the queue served in order of arrival, it would have
  // begun before the light tenant's executions.
  const last = await fleet.client.get(flood.at(-1)?.execution_id ?? 'exe_')
  expect(last?.status, 'the flood was over before the light tenant was served').toBe('queued')
  for (const { execution_id } of flood) await fleet.client.cancel(execution_id)
  const results = await endingsOf(fleet, flood, 120_000)
  expect(results.filter((r) => !r.ok && r.ending !== 'cancelled')).toEqual([])
})

it("a cancelled execution that waits ends at once, with an audit row of its tenant's retention", async () => {
  await fleet.createTenant('cancelled', {
    policy: { ...policy, retention_days: 7 },
    caps: { concurrency: 1 },
  })
  const running = await fleet.client.enqueue(fakeRequest('cancelled', [{ sleep_ms: 600_000 }]))
  for await (const { event } of fleet.client.stream(running.execution_id)) if (event.type === 'started') break
  const queued = await fleet.client.enqueue(fakeRequest('cancelled', []))
  const delayed = await fleet.client.enqueue({ ...fakeRequest('cancelled', []), delay_ms: 3_600_000 })

  expect(await fleet.client.cancel(queued.execution_id)).toBe('cancelled')
  expect(await fleet.client.cancel(delayed.execution_id)).toBe('cancelled')
  expect(await fleet.client.cancel(queued.execution_id)).toBe('ended')
  expect(await fleet.client.cancel(running.execution_id)).toBe('cancelling')

  const all = [running, queued, delayed]
  const results = await endingsOf(fleet, all, 30_000)
  expect(results.map((r) => r.ending)).toEqual(['cancelled', 'cancelled', 'cancelled'])
  await expectExactBooks(fleet, 'cancelled', all, results)
  const rows = await auditRows(fleet, 'cancelled')
  expect(rows.map((row) => [row.retention_days, row.quota_charged]).sort()).toEqual([
    [7, false],
    [7, false],
    [7, true],
  ])
})
