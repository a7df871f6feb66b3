/**
 * A worker's wall clock jumps by a day, forwards and back. Windows, durations and waits use Redis's clock and
 * a monotonic clock, so charges, waits and measurements stay right.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { auditRows, endingsOf, expectExactBooks, expectNothingHeld, fakeRequest } from './accounts.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
})
afterAll(async () => fleet[Symbol.asyncDispose]())

/** Every reading of `Date.now` in the worker is off by a day. The direction changes every 50 readings. */
const JUMPING = `data:text/javascript,${encodeURIComponent(
  'const now = Date.now; let n = 0; Date.now = () => now() + (Math.floor(n++ / 50) % 2 ? 86400000 : -86400000)',
)}`

it('a worker charges, measures and defers correctly while its wall clock jumps', async () => {
  await fleet.createTenant('jumps', {
    policy: { min_isolation: 'none' },
    caps: { tenant_daily: 1000, agent_hourly: 1000, concurrency: 2 },
  })
  await fleet.startWorker({
    COFFERDAM_BACKENDS: 'fake',
    COFFERDAM_SLOTS: '8',
    NODE_OPTIONS: `--import "${JUMPING}"`,
  })
  const accepted = []
  for (let n = 0; n < 40; n += 1)
    accepted.push(await fleet.client.enqueue(fakeRequest('jumps', [{ sleep_ms: 20 }, { print: `${n}` }])))
  const results = await endingsOf(fleet, accepted, 60_000)
  expect(results.filter((result) => !result.ok)).toEqual([])
  await expectExactBooks(fleet, 'jumps', accepted, results)
  const rows = await auditRows(fleet, 'jumps')
  expect(Math.max(...rows.map((row) => row.duration_ms ?? 0))).toBeLessThan(60_000)
  expect(Math.max(...rows.map((row) => row.queue_ms ?? 0))).toBeLessThan(60_000)
  await expectNothingHeld(fleet)
})
