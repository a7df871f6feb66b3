/** Figures by minute of many random attempts, against a plain recomputation. */
import type { AttemptRecord } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { base, ended, figures, HOUR, MINUTE, type Ended } from './ended-attempts.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'

let t: TestStore
beforeAll(async () => {
  t = await openTestStore()
})
afterAll(() => t.close())

const record = (records: readonly AttemptRecord[]) => Promise.all(records.map((one) => t.store.record(one)))

describe('many random rows', () => {
  it('give what a plain recomputation gives, in every grouping', async () => {
    let seed = 20_261_126
    /** Numerical Recipes' linear congruential generator. */
    const random = (below: number): number => {
      seed = (seed * 1_664_525 + 1_013_904_223) % 2 ** 32
      return Math.floor((seed / 2 ** 32) * below)
    }
    const pick = <T>(values: readonly T[]): T => values[random(values.length)] as T
    const attempts = Array.from({ length: 600 }, (_, n): Required<Ended> => ({
      endMs: HOUR + random(20 * MINUTE),
      waitMs: random(10) ** 4,
      runMs: random(5000),
      // More tenants than groups, of different sizes.
      tenant: `t${String(Math.floor(Math.sqrt(random(30 * 30)))).padStart(2, '0')}`,
      ending: pick(['ok', 'ok', 'error', 'oom']),
      backend: pick(['docker', 'gvisor', null]),
      cost: n % 7 === 0 ? null : random(1000),
    }))
    await record(attempts.map(ended))

    const quantile = (values: number[], q: number) =>
      values.length === 0 ? null : values.toSorted((a, b) => a - b)[Math.ceil(q * values.length) - 1]
    const summed = (rows: Required<Ended>[]) => {
      const waits = rows.map(({ waitMs }) => waitMs)
      const runs = rows.filter(({ backend }) => backend !== null).map(({ runMs }) => runMs)
      return {
        count: rows.length,
        wait_p50_ms: quantile(waits, 0.5),
        wait_p95_ms: quantile(waits, 0.95),
        run_p50_ms: quantile(runs, 0.5),
        run_p95_ms: quantile(runs, 0.95),
        cost: rows.reduce((sum, { cost }) => sum + (cost ?? 0), 0),
      }
    }
    const stepped = (rows: Required<Ended>[], from: number, stepMs: number) =>
      Object.fromEntries(
        [...Map.groupBy(rows, ({ endMs }) => Math.floor((endMs - from) / stepMs))].map(([step, own]) => [
          step,
          summed(own),
        ]),
      )

    for (const groupBy of [undefined, 'ending', 'backend', 'tenant'] as const)
      for (let n = 0; n < 6; n += 1) {
        const stepMs = pick([MINUTE, 5 * MINUTE])
        const from = HOUR + random(3) * 5 * MINUTE
        const to = from + (1 + random(3)) * 5 * MINUTE
        const rows = attempts.filter(({ endMs }) => endMs >= from && endMs < to)
        const asked = { tenantId: null, fromMs: base + from, toMs: base + to, stepMs, groupBy }
        const series = await t.store.series(asked)
        expect(figures(series.total)).toEqual(stepped(rows, from, stepMs))
        const keyOf = (row: Required<Ended>) => (groupBy === undefined ? null : row[groupBy])
        const groups = [...Map.groupBy(rows, keyOf)].toSorted(
          ([a, x], [b, y]) => y.length - x.length || (String(a ?? '') < String(b ?? '') ? -1 : 1),
        )
        const shown = groupBy === undefined ? [] : groups.slice(0, 20)
        expect(series.groups.map(({ key, steps }) => [key, figures(steps)])).toEqual(
          shown.map(([key, own]) => [key, stepped(own, from, stepMs)]),
        )
        // The rest is computed from the rows of all other groups together, its quantiles as well.
        const rest = groupBy === undefined ? [] : groups.slice(20).flatMap(([, own]) => own)
        expect(series.rest === null ? {} : figures(series.rest)).toEqual(stepped(rest, from, stepMs))
      }
  })
})
