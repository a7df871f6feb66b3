import { expect, it } from 'vitest'
import { createSparePlan } from './spare-plan.ts'
import { spareSettingsSchema } from './spare-settings.ts'

const settings = spareSettingsSchema.parse({
  min: 2,
  max: 20,
  safety: 8,
  burst_margin: 0,
  hold_seconds: 60,
  fall_every_seconds: 30,
})

it('raises the spare pods with arrivals and waiting items, and lowers them slowly without', () => {
  const plan = createSparePlan(settings, 0)
  expect(plan.spare).toBe(2)
  expect(plan.next(0, 0, 2)).toBe(2)
  plan.arrived(1000)
  // One arrival: the mean of 1 in 15 s (refill) and 1 in 600 s (long count), × 15 s × safety 8 = 4.1,
  // rounded up.
  expect(plan.next(1000, 0, 2)).toBe(5)
  expect(plan.next(2000, 7, 5)).toBe(11)
  expect(plan.next(20_000, 0, 11)).toBe(11)
  expect(plan.next(62_000, 0, 11)).toBe(9)
  expect(plan.next(63_000, 0, 9)).toBe(9)
})

it('wants more spare pods when pods take longer to start', () => {
  const wanted = (coldMs: number): number => {
    const plan = createSparePlan({ ...settings, max: 1000 }, 0)
    for (let i = 0; i < 20; i += 1) plan.sandboxReady(coldMs, 0)
    for (let ms = 0; ms <= 1_200_000; ms += 5_000) plan.arrived(ms)
    return plan.next(1_200_000, 0, null)
  }
  expect(wanted(60_000)).toBeGreaterThan(2 * wanted(10_000))
})

it('continues from the replicas of a pool that it did not set, and holds them first', () => {
  const plan = createSparePlan(settings, 0)
  expect(plan.next(0, 0, 12)).toBe(12)
  expect(plan.next(59_000, 0, 12)).toBe(12)
  expect(plan.next(60_000, 0, 12)).toBe(9)
  // Somebody scaled it by hand, beyond the maximum.
  expect(plan.next(61_000, 0, 400)).toBe(20)
})
