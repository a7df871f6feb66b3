import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createMemoryBudget, type MemoryLease } from './memory-budget.ts'

const forever = new AbortController().signal

describe('memory budget', () => {
  it('makes a request wait until enough memory is released', async () => {
    const budget = createMemoryBudget(100)
    const first = await budget.acquire(60, forever)
    const second = budget.acquire(60, forever)
    expect(budget).toMatchObject({ usedBytes: 60, waiting: 1 })
    first[Symbol.dispose]()
    using held = await second
    expect(held.bytes).toBe(60)
    expect(budget).toMatchObject({ usedBytes: 60, waiting: 0 })
  })

  it('lets no request overtake a large one that waits', async () => {
    const budget = createMemoryBudget(100)
    const first = await budget.acquire(60, forever)
    const order: string[] = []
    const large = budget.acquire(100, forever).then((lease) => {
      order.push('large')
      return lease
    })
    const small = budget.acquire(10, forever).then((lease) => {
      order.push('small')
      return lease
    })
    expect(budget.tryAcquire(10)).toBeNull()
    first[Symbol.dispose]()
    ;(await large)[Symbol.dispose]()
    ;(await small)[Symbol.dispose]()
    expect(order).toEqual(['large', 'small'])
  })

  it('lets the next one in when a waiter gives up', async () => {
    const budget = createMemoryBudget(100)
    using _first = await budget.acquire(60, forever)
    const impatient = new AbortController()
    const large = budget.acquire(100, impatient.signal)
    const small = budget.acquire(40, forever)
    impatient.abort(new Error('cancelled'))
    await expect(large).rejects.toThrow('cancelled')
    ;(await small)[Symbol.dispose]()
  })

  it('reports room only when the last waiter has its memory or gave up', async () => {
    const budget = createMemoryBudget(100)
    const told: number[] = []
    budget.onRoom(() => told.push(budget.usedBytes))
    const first = await budget.acquire(100, forever)
    const impatient = new AbortController()
    const waiting = [budget.acquire(30, forever), budget.acquire(30, forever)]
    first[Symbol.dispose]()
    for (const lease of await Promise.all(waiting)) lease[Symbol.dispose]()
    expect(told).toEqual([60])
    using _again = await budget.acquire(100, forever)
    const given = budget.acquire(1, impatient.signal)
    impatient.abort(new Error('cancelled'))
    await expect(given).rejects.toThrow('cancelled')
    expect(told).toEqual([60, 100])
  })

  it('reports the missing bytes before an execution waits, and admits it when others release', async () => {
    const budget = createMemoryBudget(100)
    const warm = budget.tryAcquire(40)
    const missing: number[] = []
    budget.onPressure((bytes) => {
      missing.push(bytes)
      warm?.[Symbol.dispose]()
    })
    using _running = await budget.acquire(50, forever)
    expect(missing).toEqual([])
    using waited = await budget.acquire(50, forever)
    expect(waited.bytes).toBe(50)
    expect(missing).toEqual([40])
  })

  it('refuses what the whole budget cannot hold, and names both figures', async () => {
    const budget = createMemoryBudget(512 * 1024 * 1024)
    await expect(budget.acquire(1024 * 1024 * 1024, forever)).rejects.toMatchObject({
      reason: 'memory_budget_exceeded',
      message: expect.stringMatching(/1024 MiB.*512 MiB/s),
    })
  })

  it('keeps memory until the work that holds it has settled', async () => {
    const budget = createMemoryBudget(100)
    const gone = Promise.withResolvers<void>()
    const lease = await budget.acquire(100, forever)
    lease.holdUntil(gone.promise)
    lease[Symbol.dispose]()
    expect(budget.usedBytes).toBe(100)
    gone.reject(new Error('still settled'))
    const next = await budget.acquire(100, forever)
    next[Symbol.dispose]()
    next[Symbol.dispose]()
    expect(budget.usedBytes).toBe(0)
  })

  it('never exceeds its size, and ends empty, for any sequence of calls', async () => {
    const requests = fc.array(fc.record({ bytes: fc.integer({ min: 1, max: 100 }), gaveUp: fc.boolean() }))
    await fc.assert(
      fc.asyncProperty(requests, async (list) => {
        const budget = createMemoryBudget(100)
        await Promise.all(
          list.map(async ({ bytes, gaveUp }) => {
            const stopper = new AbortController()
            const asked = budget.acquire(bytes, stopper.signal)
            if (gaveUp) stopper.abort(new Error('gave up'))
            const lease: MemoryLease | null = await asked.catch(() => null)
            expect(budget.usedBytes).toBeLessThanOrEqual(100)
            await Promise.resolve()
            lease?.[Symbol.dispose]()
          }),
        )
        expect(budget).toMatchObject({ usedBytes: 0, waiting: 0 })
      }),
      { numRuns: 100 },
    )
  })
})
