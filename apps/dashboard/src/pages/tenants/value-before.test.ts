import type { PolicyEvent } from '@cofferdam/client'
import { expect, it } from 'vitest'
import { valueBefore } from './value-before.ts'

const event = (before: unknown, after: unknown): PolicyEvent => ({
  id: 1,
  tenant_id: 'acme',
  actor: 'key:k_7',
  event_type: 'caps',
  before,
  after,
  source: 'api',
  via: 'ui',
  created_at: '2026-11-26T12:00:00.000Z',
})
const found = (cap: number | null) => ({ cap, actor: 'key:k_7', at: '2026-11-26T12:00:00.000Z' })
const daily = (cap: unknown, more: object = {}) => ({ tenant_daily: cap, weight: 1, ...more })

it('passes over later changes of other caps', () => {
  const events = [
    event(daily(0), daily(0, { weight: 3 })),
    event(daily(500), daily(0)),
    event(daily(9), daily(500)),
  ]
  expect(valueBefore(events)).toEqual(found(500))
})

it('tells the default of the fleet from a number', () => {
  expect(valueBefore([event(daily(null), daily(0))])).toEqual(found(null))
})

it('undoes nothing when the last change did not stop the tenant', () => {
  expect(valueBefore([event(daily(0), daily(7)), event(daily(500), daily(0))])).toBeNull()
})

it.each([
  [[]],
  [[event(null, { tenant_daily: 0 })]],
  [[event(daily('500'), daily(0)), event(daily(-1), daily(0)), event(daily(1.5), daily(0))]],
  [[event('caps', ['tenant_daily'])]],
])('believes nothing that is no cap: %j', (events) => {
  expect(valueBefore(events)).toBeNull()
})
