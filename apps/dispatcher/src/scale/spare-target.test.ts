import fc from 'fast-check'
import { expect, it } from 'vitest'
import { spareSettingsSchema } from './spare-settings.ts'
import { nextSpare, wantedSpare, type SpareState } from './spare-target.ts'

const settings = spareSettingsSchema.parse({
  min: 2,
  max: 50,
  safety: 2,
  burst_margin: 0,
  hold_seconds: 60,
  fall_share: 0.25,
  fall_every_seconds: 30,
})

it('wants a spare for each waiting item, and for each arrival during a refill times the safety', () => {
  const wanted = (depth: number, arrivalsPerSecond: number): number =>
    wantedSpare({ depth, arrivalsPerSecond, refillSeconds: 15 }, settings)
  expect(wanted(0, 0)).toBe(2)
  // 0.1 × 15 × 2 = 3
  expect(wanted(0, 0.1)).toBe(3)
  // 0.11 × 15 × 2 = 3.3
  expect(wanted(5, 0.11)).toBe(9)
  expect(wanted(49, 0.1)).toBe(50)
  expect(wanted(1e9, 1e9)).toBe(50)
})

it('adds the margin times the root of the arrivals during a refill', () => {
  const wanted = (arrivalsPerSecond: number): number =>
    wantedSpare(
      { depth: 1, arrivalsPerSecond, refillSeconds: 10 },
      { ...settings, max: 1000, burst_margin: 9 },
    )
  // One arrival: 1 + 2 + 9. Four: 1 + 8 + 18. A hundred: 1 + 200 + 90.
  expect([wanted(0.1), wanted(0.4), wanted(10)]).toEqual([12, 27, 291])
})

it('goes up at once, holds for a minute, and then gives up a quarter every 30 s', () => {
  let state: SpareState = { spare: 2, keepUntilMs: 0 }
  const spares: number[] = []
  for (let seconds = 0; seconds <= 180; seconds += 10) {
    state = nextSpare(state, seconds === 0 ? 20 : 5, seconds * 1000, settings)
    spares.push(state.spare)
  }
  // 20 until 60 s, then 20 − 5, 15 − 3, 12 − 3, 9 − 2, and 7 − 1.
  expect(spares).toEqual([20, 20, 20, 20, 20, 20, 15, 15, 15, 12, 12, 12, 9, 9, 9, 7, 7, 7, 6])
})

it('holds again when the current number is wanted again', () => {
  const risen = nextSpare({ spare: 9, keepUntilMs: 0 }, 10, 0, settings)
  const again = nextSpare(risen, 10, 59_000, settings)
  expect(nextSpare(again, 2, 118_000, settings).spare).toBe(10)
  expect(nextSpare(again, 2, 119_000, settings).spare).toBe(8)
})

it('never leaves the bounds, reaches what is wanted, and falls by a quarter or by one at most', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ wanted: fc.nat(80), afterMs: fc.nat(120_000) }), { maxLength: 60 }),
      (steps) => {
        let state: SpareState = { spare: settings.min, keepUntilMs: 0 }
        let nowMs = 0
        for (const { wanted: depth, afterMs } of steps) {
          nowMs += afterMs
          const wanted = wantedSpare({ depth, arrivalsPerSecond: 0, refillSeconds: 15 }, settings)
          const before = state.spare
          state = nextSpare(state, wanted, nowMs, settings)
          expect(state.spare).toBeGreaterThanOrEqual(wanted)
          expect(state.spare).toBeLessThanOrEqual(settings.max)
          expect(before - state.spare).toBeLessThanOrEqual(Math.max(1, before / 4))
        }
        // While the wanted number does not change, the spares reach it within these steps.
        for (let i = 0; i < 60; i += 1) state = nextSpare(state, 7, (nowMs += 60_000), settings)
        expect(state.spare).toBe(7)
      },
    ),
  )
})

it('refuses bounds that exclude each other', () => {
  expect(spareSettingsSchema.safeParse({ min: 3, max: 2 }).error?.issues).toMatchObject([
    { path: ['max'], message: 'must not be below `min`' },
  ])
  expect(spareSettingsSchema.parse({ min: 2, max: 2 })).toMatchObject({ min: 2, max: 2, safety: 2 })
})
