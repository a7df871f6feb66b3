import { expect, it } from 'vitest'
import { createArrivals } from './arrivals.ts'

const REFILL_SECONDS = 15

it('estimates a steady rate within a sixth', () => {
  const arrivals = createArrivals(0, REFILL_SECONDS)
  for (let ms = 0; ms <= 3_600_000; ms += 10_000) arrivals.arrived(ms)
  const rates = Array.from({ length: 11 }, (_, i) => arrivals.perSecond(3_600_000 + i * 1000, REFILL_SECONDS))
  const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length
  expect(Math.abs(mean / 0.1 - 1)).toBeLessThan(1 / 6)
})

it('follows a burst within seconds, and forgets it within minutes', () => {
  const arrivals = createArrivals(0, REFILL_SECONDS)
  for (let ms = 0; ms < 15_000; ms += 500) arrivals.arrived(ms)
  // The rate is 2 per second. After one time constant (15 s) the short count shows 1 − 1/e of it, so the mean
  // about half of that.
  expect(arrivals.perSecond(15_000, REFILL_SECONDS)).toBeGreaterThan(0.6)
  expect(arrivals.perSecond(120_000, REFILL_SECONDS)).toBeLessThan(0.03)
  expect(arrivals.perSecond(7_200_000, REFILL_SECONDS)).toBeLessThan(1e-6)
})

it('counts one arrival as half a spare pod times the safety, whatever the refill time', () => {
  for (const seconds of [1, 15, 120]) {
    const arrivals = createArrivals(0, seconds)
    arrivals.arrived(0)
    const duringRefill = arrivals.perSecond(0, seconds) * seconds
    expect(duringRefill).toBeGreaterThanOrEqual(0.5)
    expect(duringRefill).toBeLessThanOrEqual(0.6)
  }
})

it('stands still while the clock goes back', () => {
  const arrivals = createArrivals(10_000, REFILL_SECONDS)
  arrivals.arrived(10_000)
  const before = arrivals.perSecond(10_000, REFILL_SECONDS)
  expect(arrivals.perSecond(0, REFILL_SECONDS)).toBe(before)
  arrivals.arrived(5_000)
  expect(arrivals.perSecond(10_000, REFILL_SECONDS)).toBe(2 * before)
})
