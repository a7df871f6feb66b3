import { describe, expect, it } from 'vitest'
import type { QueueTenant } from './queue.ts'
import { isHeldBack, standingOf } from './standing.ts'

const tenant = (more: Partial<QueueTenant> = {}): QueueTenant => ({
  tenant_id: 'acme',
  waiting: 3,
  delayed: 0,
  running: 0,
  concurrency: null,
  max_queued: 10_000,
  weight: 1,
  share_1m: 0.5,
  due_share: 0.5,
  virtual_lag: 0,
  place: 1,
  oldest_age_ms: 10,
  parked_until: null,
  kill_switch: false,
  ...more,
})
const PARKED = '2027-01-01T00:00:00.000Z'

describe('the standing of a tenant', () => {
  it.each<[Partial<QueueTenant>, string]>([
    [{}, 'Next'],
    [{ place: 7 }, 'Waits its turn'],
    [{ place: null }, 'Not served now'],
    [{ place: null, running: 2, concurrency: 2 }, 'At its concurrency'],
    [{ running: 2, concurrency: null }, 'Next'],
    [{ place: null, waiting: 0, running: 1 }, 'Runs, nothing waits'],
    [{ place: null, waiting: 0, delayed: 4 }, 'Only delayed'],
    [{ parked_until: PARKED, running: 2, concurrency: 2 }, 'Parked: a cap is used up'],
    [{ parked_until: PARKED, kill_switch: true }, 'Stopped: a cap is 0'],
    [{ kill_switch: null }, 'Next'],
  ])('of %j is "%s"', (more, words) => {
    expect(standingOf(tenant(more)).words).toBe(words)
  })

  it.each<[Partial<QueueTenant>, boolean]>([
    [{ share_1m: 0.1 }, true],
    [{ share_1m: 0.45 }, false],
    [{ share_1m: 0.9 }, false],
    [{ share_1m: 0.1, waiting: 0 }, false],
    [{ share_1m: null }, false],
    [{ share_1m: 0, due_share: 0 }, false],
  ])('with %j is held back: %s', (more, isHeld) => {
    expect(isHeldBack(tenant(more))).toBe(isHeld)
  })
})
