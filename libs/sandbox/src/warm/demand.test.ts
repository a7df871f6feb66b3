import { expect, test } from 'vitest'
import { createDemand } from './demand.ts'

test('keeps one slot before the first request', () => {
  expect(createDemand(0).target(0)).toBe(1)
})

test('wants six slots for six arrivals per second and a warm-up of a quarter second', () => {
  const demand = createDemand(0)
  for (let i = 0; i < 40; i += 1) demand.warmed(250)
  for (let now = 0; now < 120_000; now += 1000 / 6) demand.arrived(now)
  // r·W = 1.5, 2.3·√1.5 = 2.8, and one more.
  expect(demand.target(120_000)).toBe(6)
})

test('reacts to a burst at once and forgets it within two minutes', () => {
  const demand = createDemand(0)
  for (let i = 0; i < 20; i += 1) demand.arrived(10_000)
  // 20 in 2 s, 0.2 s each: r·W = 2.
  expect(demand.target(10_000)).toBe(7)
  expect(demand.target(20_000)).toBeLessThan(4)
  expect(demand.target(300_000)).toBe(2)
})

test('wants more slots if warming takes longer', () => {
  const at = (warmUpMs: number): number => {
    const demand = createDemand(0)
    for (let i = 0; i < 40; i += 1) demand.warmed(warmUpMs)
    for (let now = 0; now < 60_000; now += 250) demand.arrived(now)
    return demand.target(60_000)
  }
  expect([at(30), at(500)]).toEqual([2, 7])
})
