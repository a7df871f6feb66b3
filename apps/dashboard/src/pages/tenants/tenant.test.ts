import type { Operations, ReadableTenant } from '@cofferdam/client'
import { expect, it } from 'vitest'
import { loadOf, loadWords, standingOf, tenantPath } from './tenant.ts'

type Answer = Operations['listQueueTenants']['result']

const tenant = (caps: object, sandbox_enabled = true) =>
  ({ policy: { sandbox_enabled }, caps: { tenant_daily: null, ...caps } }) as unknown as ReadableTenant
const answer = (names: string[], more: object = {}) =>
  ({
    tenants: names.map((tenant_id) => ({ tenant_id, waiting: 3, delayed: 2, running: 1 })),
    total: names.length,
    complete: true,
    ...more,
  }) as unknown as Answer

it.each([
  [tenant({}), 'Active', ''],
  [tenant({ tenant_daily: 0 }), 'Stopped', 'Nothing starts: its daily cap is 0.'],
  [tenant({ tenant_daily: 5, tenant_daily_cost: 0 }), 'Stopped', 'Nothing starts: its cap of cost is 0.'],
  [tenant({ tenant_daily: 0 }, false), 'Stopped', 'Nothing starts: its daily cap is 0.'],
  [tenant({ max_queued: 0 }), 'Active', ''],
  [tenant({}, false), 'Sandbox off', 'Every execution is refused: its policy says so.'],
])('says whether anything can start: %#', (of, words, why) => {
  expect(standingOf(of)).toMatchObject({ words, why })
})

it('counts delayed executions as waiting, and knows when it cannot know', () => {
  expect(loadOf(answer(['a', 'b']), 'b')).toEqual({ due: 3, waiting: 5, running: 1 })
  expect(loadOf(answer(['a']), 'b')).toEqual({ due: 0, waiting: 0, running: 0 })
  expect(loadOf(answer(['a'], { total: 501 }), 'b')).toBeNull()
  expect(loadOf(answer(['a'], { complete: false }), 'b')).toBeNull()
})

it.each([
  [{ due: 0, waiting: 1, running: 1200 }, '1 waits, 1,200 run'],
  [{ due: 40, waiting: 40, running: 1 }, '40 wait, 1 runs'],
  [null, ''],
])('puts a load into words: %#', (load, words) => {
  expect(loadWords(load)).toBe(words)
})

it('keeps a hostile name inside its part of the path', () => {
  expect(tenantPath('../../queue?x#y', 'caps')).toBe('/v1/tenants/..%2F..%2Fqueue%3Fx%23y/caps')
})
