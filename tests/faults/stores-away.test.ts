import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Accepted } from '@cofferdam/contract'
import { startFleet, type Fleet } from '../fleet.ts'
import { endingsOf, expectExactBooks, fakeRequest } from './accounts.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet({ durable: true })
  await fleet.startWorker({ COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '8' })
})
afterAll(async () => fleet[Symbol.asyncDispose]())

const GENEROUS = {
  policy: { min_isolation: 'none' as const },
  caps: { tenant_daily: 100_000, agent_hourly: 100_000 },
}

it('keeps ending executions while Postgres is away, and writes their audit rows when it is back', async () => {
  await fleet.createTenant('no-postgres', GENEROUS)
  const warm = await fleet.client.enqueue(fakeRequest('no-postgres', []))
  await endingsOf(fleet, [warm], 30_000)

  await fleet.stopPostgres()
  const during: Accepted[] = []
  for (let i = 0; i < 40; i++)
    during.push(await fleet.client.enqueue(fakeRequest('no-postgres', [{ print: `${i}` }])))
  const results = await endingsOf(fleet, during, 120_000)
  expect(results.map((r) => r.ending)).toEqual(results.map(() => 'ok'))

  await fleet.startPostgres()
  const all = await endingsOf(fleet, [warm, ...during], 30_000)
  await expectExactBooks(fleet, 'no-postgres', [warm, ...during], all)
}, 300_000)

it('loses nothing when Redis restarts under load', async () => {
  await fleet.createTenant('redis-restart', GENEROUS)
  const accepted: Accepted[] = []
  for (let i = 0; i < 60; i++)
    accepted.push(
      await fleet.client.enqueue(fakeRequest('redis-restart', [{ sleep_ms: 100 }, { print: `${i}` }])),
    )
  await fleet.restartRedis()
  const results = await endingsOf(fleet, accepted, 120_000)
  expect(results.every((r) => r.ending === 'ok')).toBe(true)
  await expectExactBooks(fleet, 'redis-restart', accepted, results)
}, 300_000)
