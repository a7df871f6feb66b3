import { expect, it } from 'vitest'
import { createRefillTime } from './refill-time.ts'

it('uses the configured time, and does not count the adoption of a spare as a refill', () => {
  const refill = createRefillTime(15)
  for (let i = 0; i < 100; i += 1) refill.sandboxReady(3_200, i)
  expect(refill.seconds(1000)).toBe(15)
})

it('follows measured cold starts, and returns to the configured time within hours', () => {
  const refill = createRefillTime(15)
  refill.sandboxReady(40_000, 0)
  // A fifth of the way from 15 to 40.
  expect(refill.seconds(0)).toBe(20)
  for (let i = 0; i < 20; i += 1) refill.sandboxReady(40_000, 0)
  expect(refill.seconds(0)).toBeGreaterThan(39)
  // 15 + 25 / e after an hour.
  expect(refill.seconds(3_600_000)).toBeCloseTo(24.2, 0)
  expect(refill.seconds(36_000_000)).toBeCloseTo(15, 1)
})

it('counts an endless cold start as two minutes', () => {
  const refill = createRefillTime(15)
  for (let i = 0; i < 100; i += 1) refill.sandboxReady(1e12, 0)
  expect(refill.seconds(0)).toBeCloseTo(120, 3)
})
