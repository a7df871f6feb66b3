import { describe, expect, it } from 'vitest'
import type { TenantFigures, TenantTurn } from './tenant-figures.ts'
import { standings } from './tenant-order.ts'

const tenant = (tenantId: string, turns: Partial<TenantTurn>[], rest: Partial<TenantFigures> = {}) => ({
  tenantId,
  waiting: {
    interactive: 1,
    routine: 0,
  },
  delayed: 0,
  running: 0,
  parkedUntilMs: null,
  weight: 1,
  concurrency: 10,
  maxQueued: 10,
  ...rest,
  turns: turns.map((turn) => ({
    lane: 'interactive' as const,
    kind: 'k',
    virtualTime: 0,
    clock: 0,
    state: 'ring' as const,
    ...turn,
  })),
})

describe('standings', () => {
  it('give places in the order of virtual time, then of names as bytes', () => {
    const found = standings([
      tenant('b', [{ virtualTime: 1 }]),
      tenant('B', [{ virtualTime: 1 }]),
      tenant('a', [{ virtualTime: 2 }]),
      tenant('late', [{ virtualTime: 0.5 }]),
    ])
    expect([...found].map(([name, { place }]) => [name, place])).toEqual([
      ['b', 3],
      ['B', 2],
      ['a', 4],
      ['late', 1],
    ])
  })

  it('give the best place over lanes and kinds of workers, and none to tenants that cannot be served', () => {
    const found = standings([
      tenant('two', [{ virtualTime: 5 }, { kind: 'other', virtualTime: 1 }]),
      tenant('one', [{ virtualTime: 1 }, { kind: 'other', virtualTime: 9 }]),
      tenant('share', [{ virtualTime: 0, state: 'share' }]),
      tenant('full', [{ virtualTime: 0, state: 'out' }]),
      tenant('none', []),
    ])
    expect(Object.fromEntries([...found].map(([name, { place }]) => [name, place]))).toEqual({
      two: 1,
      one: 1,
      share: null,
      full: null,
      none: null,
    })
  })

  it('give due shares by weight, which sum to 1, and nothing to a parked tenant', () => {
    const found = standings([
      tenant('a', [], { weight: 0.5 }),
      tenant('b', [], { weight: 1.5 }),
      tenant('parked', [], { weight: 7, parkedUntilMs: 1 }),
      tenant('still-runs', [], { weight: 2, parkedUntilMs: 1, running: 1 }),
    ])
    expect([...found.values()].map(({ dueShare }) => dueShare)).toEqual([0.125, 0.375, 0, 0.5])
    expect(standings([tenant('parked', [], { parkedUntilMs: 1 })]).get('parked')?.dueShare).toBe(0)
  })

  it('give the lag where a tenant waits, or where it ran when it waits nowhere', () => {
    const routine = { lane: 'routine', virtualTime: 1, clock: 1.5 } as const
    const interactive = { virtualTime: 4, clock: 1 }
    const idle = { waiting: { interactive: 0, routine: 0 }, running: 1 }
    const found = standings([
      tenant('waits', [routine, interactive]),
      tenant('runs', [routine, interactive], idle),
      tenant('new', []),
    ])
    expect([...found.values()].map(({ virtualLag }) => virtualLag)).toEqual([3, -0.5, null])
  })
})
