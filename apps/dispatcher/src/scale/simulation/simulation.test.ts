/** The claims of docs/operations/dispatcher-scaling.md, on fixed seeds. */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { rowOf, runDays, seedsUpTo, summarise } from './compare.ts'
import { createRandom, sessionsOf, USUAL_DAY } from './day.ts'
import { ourRule, sampleRule, sampleRuleWithAcks } from './policies.ts'
import { simulatePool, type Policy } from './simulate-pool.ts'

const SEEDS = seedsUpTo(24)
const PAGE = readFileSync(
  new URL('../../../../../docs/operations/dispatcher-scaling.md', import.meta.url),
  'utf8',
)
const ours = runDays(() => ourRule(), USUAL_DAY, SEEDS)
const sample = runDays(sampleRule, USUAL_DAY, SEEDS)

it('has at most half the cold starts of the sample, over 24 days', () => {
  expect(summarise(ours).coldStarts).toBeLessThanOrEqual(summarise(sample).coldStarts / 2)
})

it('has fewer idle pod-seconds than the sample, and no more pod-seconds, on each day', () => {
  for (const [i, day] of ours.entries()) {
    expect(day.idlePodSeconds, `seed ${i + 1}`).toBeLessThan(sample[i]!.idlePodSeconds)
    expect(day.podSeconds, `seed ${i + 1}`).toBeLessThan(sample[i]!.podSeconds)
  }
})

it('shows that the formula of the sample keeps no spares once items are acknowledged', () => {
  const acked = summarise(runDays(sampleRuleWithAcks, USUAL_DAY, SEEDS.slice(0, 3)))
  expect(acked.coldStarts).toBeGreaterThan(acked.sessions / 5)
})

it('is what the page says', () => {
  expect(PAGE).toContain(rowOf('our rule', summarise(ours)))
  expect(PAGE).toContain(rowOf('the sample: depth + pending, nothing acknowledged', summarise(sample)))
})

it('serves each session once, after at least an adoption, and repeats a day exactly', () => {
  const sessions = sessionsOf(USUAL_DAY, 7)
  const run = () => simulatePool(sessions, ourRule(), USUAL_DAY.places, 7)
  const day = run()
  expect(day.sessions).toBe(sessions.length)
  expect(day.waits[0]).toBeCloseTo(0.1)
  const held = sessions.reduce((sum, { lastsSeconds }) => sum + lastsSeconds, 0)
  expect(day.podSeconds - day.idlePodSeconds).toBeGreaterThan(held)
  expect(run()).toEqual(day)
})

it('counts cold starts, waits and idle seconds of a day that can be counted by hand', () => {
  const fixed: Policy = { everySeconds: 10, replicas: () => 2 }
  // Both spares are taken at once, the third session starts cold, and the fourth finds a refill.
  const sessions = [0, 0, 1, 25].map((atSeconds) => ({ atSeconds, lastsSeconds: 75 }))
  const day = simulatePool(sessions, fixed, 10, 1)
  expect(day).toMatchObject({ sessions: 4, coldStarts: 1 })
  expect(Array.from(day.waits.subarray(0, 3))).toEqual([0.1, 0.1, expect.closeTo(0.1)])
  expect(day.waits[3]).toBeGreaterThanOrEqual(11)
  expect(day.waits[3]).toBeLessThan(21)
  // Two unclaimed pods, starting or ready, until the last session ends at 100.1 s.
  expect(day.idlePodSeconds).toBeCloseTo(200.2)
})

it('lets sessions beyond the places wait in the queue', () => {
  const sessions = [0, 0, 0].map((atSeconds) => ({ atSeconds, lastsSeconds: 100 }))
  let deepest = 0
  const fixed: Policy = {
    everySeconds: 10,
    replicas: ({ depth }) => {
      deepest = Math.max(deepest, depth)
      return 2
    },
  }
  const day = simulatePool(sessions, fixed, 2, 1)
  expect([...day.waits]).toEqual([0.1, 0.1, expect.closeTo(100.2)])
  expect(deepest).toBe(1)
})

it('draws evenly from 0 to 1, the same for the same seed', () => {
  const random = createRandom(1)
  const drawn = Array.from({ length: 10_000 }, random)
  expect(drawn.every((value) => value >= 0 && value < 1)).toBe(true)
  expect(drawn.reduce((sum, value) => sum + value, 0) / drawn.length).toBeCloseTo(0.5, 1)
  const again = createRandom(1)
  expect(drawn.slice(0, 10)).toEqual(Array.from({ length: 10 }, again))
})
