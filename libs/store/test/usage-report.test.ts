/** Sums over audit rows: right in every grouping, for one tenant only, and read through the index. */
import { newExecutionId } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { sampleAttempt } from './sample-attempt.ts'

const DAY_MS = 86_400_000
const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
const iso = (ms: number): string => new Date(ms).toISOString()

let t: TestStore
beforeAll(async () => {
  t = await openTestStore()
})
afterAll(() => t.close())

function charged(
  atMs: number,
  cost: number,
  change: { agent?: string; tenant?: string; backend?: string } = {},
) {
  const record = sampleAttempt({ atMs: atMs - 10, chargedAtMs: atMs, ...change })
  Object.assign(record.audit, { cost, charged_cpu_ms: cost * 10, charged_gb_seconds: 0.5, duration_ms: 100 })
  if (change.backend !== undefined) record.audit.backend = change.backend
  return record
}

describe('the usage of a tenant', () => {
  const range = { tenantId: 'acme', from: iso(today - DAY_MS), to: iso(today + DAY_MS) }

  beforeAll(async () => {
    const refused = sampleAttempt({ ending: 'cap_exceeded', chargedAtMs: null, atMs: today + 3000 })
    const failed = charged(today, 4, { agent: 'b', backend: 'gvisor' })
    failed.audit.ending = 'error'
    const records = [
      charged(today - 1, 1),
      failed,
      charged(today + 1000, 2),
      refused,
      // Not counted: outside of the range, or of another tenant.
      charged(today - DAY_MS - 1, 100),
      charged(today, 1000, { tenant: 'other' }),
    ]
    await Promise.all(records.map((record) => t.store.record(record)))
  })

  it('is grouped by UTC day, with the millisecond before midnight in the day before', async () => {
    const report = await t.store.usage({ ...range, groupBy: 'day' })
    expect(report.total).toEqual({ calls: 3, failed: 1, cpu_ms: 70, gb_seconds: 1.5, run_ms: 300, cost: 7 })
    expect(report.groups.map((group) => [group.key, group.calls, group.cost])).toEqual([
      [iso(today - 1).slice(0, 10), 1, 1],
      [iso(today).slice(0, 10), 2, 6],
    ])
    expect(report.truncated).toBe(false)
  })

  it('is grouped by agent and by backend, the most expensive first', async () => {
    const byAgent = await t.store.usage({ ...range, groupBy: 'agent' })
    expect(byAgent.groups.map((group) => [group.key, group.cost])).toEqual([
      ['b', 4],
      ['scout', 3],
    ])
    const byBackend = await t.store.usage({ ...range, groupBy: 'backend' })
    expect(byBackend.groups.map((group) => [group.key, group.cost])).toEqual([
      ['gvisor', 4],
      ['fake', 3],
    ])
  })

  it('is zero for a tenant without rows', async () => {
    expect(await t.store.usage({ ...range, tenantId: 'nobody', groupBy: 'day' })).toEqual({
      total: { calls: 0, failed: 0, cpu_ms: 0, gb_seconds: 0, run_ms: 0, cost: 0 },
      groups: [],
      truncated: false,
    })
  })

  it('is refused for a range that is empty or longer than rows are kept', async () => {
    for (const to of [range.from, iso(today + 200 * DAY_MS), 'tomorrow'])
      await expect(t.store.usage({ ...range, to, groupBy: 'day' })).rejects.toMatchObject({
        code: 'invalid_request',
      })
  })
})

describe('charged counts', () => {
  it('sum CPU and cost of the day, and tell which of the given attempts are included', async () => {
    const [here, yesterday] = [
      charged(today + 5, 8, { tenant: 'sums' }),
      charged(today - 5, 1, { tenant: 'sums' }),
    ]
    await Promise.all([here, yesterday].map((record) => t.store.record(record)))
    const name = ({ audit, result }: typeof here) => ({
      executionId: result.execution_id,
      attempt: audit.attempt,
    })
    const asked = [name(here), name(yesterday), { executionId: newExecutionId(), attempt: 1 }]
    const counts = await t.store.chargedCounts('sums', today + 10, asked)
    expect(counts.day).toEqual({ bucket: today / DAY_MS, count: 1, cpuMs: 80, cost: 8 })
    expect(counts.ended).toEqual([name(here)])
    expect((await t.store.chargedCounts('sums', today + 10)).ended).toEqual([])
  })
})

describe('reading usage from many rows', () => {
  it('uses the index of tenant and charge in every partition that has rows', async () => {
    // Created 10 ms before the day, so it is in the partition of the day before.
    const template = charged(today, 1, { tenant: 'model' })
    await t.store.record(template)
    // 20,000 rows of 200 tenants in one partition, charged on a hundred days.
    await t.owner(`
      with made as (
        select n, overlay(gen_random_uuid()::text placing substr(execution_id::text, 1, 15) from 1 for 15)::uuid as id
        from sandbox_invocations cross join generate_series(1, 20000) n where tenant_id = 'model'
      )
      insert into sandbox_invocations
      select r.* from made
        cross join (select to_jsonb(i) as row from sandbox_invocations i where tenant_id = 'model') as s
        cross join lateral jsonb_populate_record(
          null::sandbox_invocations, s.row || jsonb_build_object('execution_id', id, 'tenant_id', 't' || n % 200,
            'charged_at', (s.row ->> 'charged_at')::timestamptz + n / 200 * interval '1 day')
        ) as r`)
    await t.owner('analyze sandbox_invocations')
    for (const groupBy of ['day', 'agent', 'backend'] as const)
      expect(
        (await t.store.usage({ tenantId: 't7', from: iso(today), to: iso(today + DAY_MS), groupBy })).total
          .calls,
      ).toBe(1)
    const { rows } = await t.owner(
      `explain (format json) select agent_id, count(*), sum(cost) from sandbox_invocations
       where quota_charged and tenant_id = $1 and charged_at >= $2 and charged_at < $3 and expires_on <= $4
       group by grouping sets ((agent_id), ())`,
      ['t7', iso(today), iso(today + DAY_MS), iso(today + 181 * DAY_MS).slice(0, 10)],
    )
    const plan = JSON.stringify(rows[0]?.['QUERY PLAN'])
    const day = iso(today - DAY_MS + 30 * DAY_MS)
      .slice(0, 10)
      .replaceAll('-', '')
    expect(plan).toContain(`"Index Name":"sandbox_invocations_${day}_tenant_id_charged_at_idx"`)
  })
})
