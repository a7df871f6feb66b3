import { describe, expect, it } from 'vitest'
import { createShares, type Shares } from './shares.ts'

/** Takes shares for `holder` until one is refused. Returns how many it took. */
function takeAll(shares: Shares, holder: string): number {
  let taken = 0
  while (shares.take(holder) !== null) taken += 1
  return taken
}

describe('shares', () => {
  it('gives one holder half, and each later holder one part of what is left', () => {
    const shares = createShares(512)
    expect(['a', 'b', 'c', 'd'].map((holder) => takeAll(shares, holder))).toEqual([256, 128, 64, 32])
    expect(shares.take('e')).not.toBeNull()
  })

  it('serves the last holder too, and never exceeds the total', () => {
    const shares = createShares(4)
    expect(['a', 'b', 'c', 'd'].map((holder) => takeAll(shares, holder))).toEqual([2, 1, 1, 0])
    expect(shares.used).toBe(4)
    expect(takeAll(createShares(0), 'a')).toBe(0)
    expect(takeAll(createShares(1), 'a')).toBe(1)
  })

  it('releases once whatever a holder had, however much it grew', () => {
    const shares = createShares(100)
    const hold = shares.take('a', 0)
    expect([hold?.grow(30), hold?.grow(20), hold?.grow(1)]).toEqual([true, true, false])
    expect(shares.take('a', 1)).toBeNull()
    hold?.[Symbol.dispose]()
    hold?.[Symbol.dispose]()
    expect(shares.used).toBe(0)
    expect(hold?.grow(1)).toBe(false)
    expect(shares.take('a', 50)).not.toBeNull()
  })
})
