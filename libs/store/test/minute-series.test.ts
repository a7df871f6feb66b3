/** Figures by minute: exact for a few rows, bounded, and for one tenant only. */
import type { AttemptRecord } from '@cofferdam/contract'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createStore } from '../src/index.ts'
import { base, ended, figures, HOUR, iso, MINUTE } from './ended-attempts.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'

let t: TestStore
beforeAll(async () => {
  t = await openTestStore()
})
afterAll(() => t.close())

const record = (records: readonly AttemptRecord[]) => Promise.all(records.map((one) => t.store.record(one)))
const NONE = { run_p50_ms: null, run_p95_ms: null }

describe('a few rows', () => {
  const range = { tenantId: 'acme', fromMs: base, toMs: base + 5 * MINUTE, stepMs: MINUTE }

  beforeAll(() =>
    record([
      // Minute 0: from its first millisecond to its last.
      ended({ endMs: 0, waitMs: 10, runMs: 100, cost: 5 }),
      ended({ endMs: MINUTE - 1, waitMs: 30, runMs: 300, cost: 7 }),
      ended({ endMs: 30_000, waitMs: 20, runMs: 200, ending: 'error', cost: 1 }),
      ended({ endMs: 40_000, waitMs: 900, runMs: 1, ending: 'cap_exceeded', backend: null, cost: null }),
      // Minute 2. Created a day before.
      ended({ endMs: 2 * MINUTE, waitMs: 24 * HOUR, runMs: 5000, backend: 'gvisor' }),
      // Not counted: ended before or after the range, or of another tenant.
      ended({ endMs: -1, waitMs: 1, runMs: 1 }),
      ended({ endMs: 5 * MINUTE, waitMs: 1, runMs: 1 }),
      ended({ endMs: 1000, waitMs: 1, runMs: 1, tenant: 'globex', cost: 100 }),
    ]),
  )

  it('are counted in the minute of their end, with quantiles and cost', async () => {
    const series = await t.store.series(range)
    expect(series).toMatchObject({ fromMs: base, countedFromMs: base, groups: [], rest: null })
    expect(figures(series.total)).toEqual({
      0: { count: 4, wait_p50_ms: 20, wait_p95_ms: 900, run_p50_ms: 200, run_p95_ms: 300, cost: 13 },
      2: {
        count: 1,
        wait_p50_ms: 24 * HOUR,
        wait_p95_ms: 24 * HOUR,
        run_p50_ms: 5000,
        run_p95_ms: 5000,
        cost: 1,
      },
    })
  })

  it('are grouped by ending and by backend, the most attempts first', async () => {
    const byEnding = await t.store.series({ ...range, groupBy: 'ending' })
    expect(byEnding.groups.map(({ key, steps }) => [key, [...steps.keys()]])).toEqual([
      ['ok', [0, 2]],
      ['cap_exceeded', [0]],
      ['error', [0]],
    ])
    expect(byEnding.groups[1]?.steps.get(0)).toEqual({
      count: 1,
      wait_p50_ms: 900,
      wait_p95_ms: 900,
      cost: 0,
      ...NONE,
    })
    expect(byEnding.total.get(0)?.count).toBe(4)
    const byBackend = await t.store.series({ ...range, groupBy: 'backend' })
    expect(byBackend.groups.map(({ key, steps }) => [key, [...steps.keys()]])).toEqual([
      ['docker', [0]],
      [null, [0]],
      ['gvisor', [2]],
    ])
  })

  it('are those of all tenants for an operator, by tenant too', async () => {
    const series = await t.store.series({ ...range, tenantId: null, groupBy: 'tenant' })
    expect(series.total.get(0)).toMatchObject({ count: 5, cost: 113 })
    expect(series.groups.map(({ key }) => key)).toEqual(['acme', 'globex'])
    const own = await t.store.series({ ...range, tenantId: 'globex', groupBy: 'tenant' })
    expect(own.groups.map(({ key, steps }) => [key, steps.get(0)?.count])).toEqual([['globex', 1]])
  })

  it('are counted by longer steps, and the range is rounded outwards to them', async () => {
    const wide = { ...range, fromMs: base + 1, toMs: base + 5 * MINUTE + 1, stepMs: 5 * MINUTE }
    const series = await t.store.series(wide)
    expect(series).toMatchObject({ fromMs: base, toMs: base + 10 * MINUTE })
    expect([...series.total].map(([step, { count }]) => [step, count])).toEqual([
      [0, 5],
      [1, 1],
    ])
  })

  it('are read up to a bound, the newest first, and incomplete steps are not counted', async () => {
    const cut = await t.store.series({ ...range, maxRows: 3 })
    expect(cut.countedFromMs).toBe(base + MINUTE)
    expect([...cut.total.keys()]).toEqual([2])
    expect((await t.store.series({ ...range, maxRows: 5 })).countedFromMs).toBe(base)
  })

  it('are refused for a range that is empty or longer than 24 hours', async () => {
    for (const toMs of [base, base - 1, base + 24 * HOUR + 1, Number.NaN])
      await expect(t.store.series({ ...range, toMs })).rejects.toMatchObject({ code: 'invalid_request' })
  })
})

describe('the work of tenants', () => {
  it('is the part of each attempt that lies in the range', async () => {
    const at = 3 * HOUR
    await record([
      // An attempt that ended before the range, one that began in it, one that covers it, one that ended in
      // it, and one that begins after it.
      ended({ endMs: at - 1, waitMs: 1, runMs: 100, tenant: 'w1' }),
      ended({ endMs: at + 70_000, waitMs: 1, runMs: 30_000, tenant: 'w1' }),
      ended({ endMs: at + 61_000, waitMs: 1, runMs: 90_000, tenant: 'w2' }),
      ended({ endMs: at + 5000, waitMs: 1, runMs: 6000, tenant: 'w1' }),
      ended({ endMs: at + 65_000, waitMs: 1, runMs: 1000, tenant: 'w3' }),
    ])
    const work = await t.store.recentWork(base + at, base + at + MINUTE)
    expect(Object.fromEntries(work)).toEqual({ w1: 25_000, w2: 60_000 })
  })
})

describe('a series', () => {
  it('gives up within the statement timeout, and says what to do', async () => {
    const impatient = await createStore({
      databaseUrl: t.url,
      blobDir: t.blobDir,
      timeouts: {
        connectMs: 3e4,
        statementMs: 400,
      },
    })
    const locker = new pg.Client({ connectionString: t.url })
    await locker.connect()
    try {
      await locker.query('begin')
      await locker.query('lock table sandbox_invocations in access exclusive mode')
      await expect(
        impatient.series({ tenantId: null, fromMs: base, toMs: base + HOUR, stepMs: MINUTE }),
      ).rejects.toMatchObject({
        code: 'store_unavailable',
        message: expect.stringContaining('shorter range'),
      })
    } finally {
      await locker.end()
      await impatient[Symbol.asyncDispose]()
    }
  })

  it('of one tenant among many rows is read through the index on ends', async () => {
    const day = iso(base).slice(0, 10)
    await t.owner(`
      insert into sandbox_invocations
      select r.* from generate_series(1, 20000) n
        cross join (select to_jsonb(i) as row from sandbox_invocations i where tenant_id = 'w3') as s
        cross join lateral jsonb_populate_record(null::sandbox_invocations, s.row || jsonb_build_object(
          'execution_id', overlay(gen_random_uuid()::text
            placing substr(s.row ->> 'execution_id', 1, 15) from 1 for 15),
          'tenant_id', 'many' || n % 100,
          'finished_at', (s.row ->> 'finished_at')::timestamptz + n * interval '1 second')) as r`)
    await t.owner('analyze sandbox_invocations')
    const { rows } = await t.owner(
      `explain (format json) select finished_at from sandbox_invocations where tenant_id = $1
       and finished_at >= $2 and finished_at < $3 and expires_on >= $4 order by finished_at desc limit 100`,
      ['many7', iso(base + 3 * HOUR), iso(base + 4 * HOUR), day],
    )
    expect(JSON.stringify(rows[0])).toMatch(
      /"Index Name":"sandbox_invocations_\d{8}_finished_at_tenant_id_idx"/,
    )
  })
})
