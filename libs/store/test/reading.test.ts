import { newExecutionId, type ExecutionId } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { InvocationFilter } from '../src/index.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { sampleAttempt, type Sample } from './sample-attempt.ts'

const HOUR_MS = 3_600_000
/** Noon, so that an hour to either side is the same day. */
const NOON = Date.UTC(2026, 10, 20, 12)
let t: TestStore

beforeAll(async () => {
  t = await openTestStore()
})
afterAll(() => t.close())

const record = async (samples: Sample[]): Promise<ExecutionId[]> => {
  const records = samples.map(sampleAttempt)
  await Promise.all(records.map((one) => t.store.record(one)))
  return records.map((one) => one.result.execution_id)
}

async function allPages(filter: InvocationFilter): Promise<string[]> {
  const found: string[] = []
  let cursor: string | null = null
  do {
    const page = await t.store.listAudit({ ...filter, ...(cursor === null ? {} : { cursor }) })
    expect(page.rows.length).toBeLessThanOrEqual(filter.limit)
    found.push(...page.rows.map((row) => `${row.execution_id}/${row.attempt}`))
    cursor = page.next_cursor
  } while (cursor !== null)
  return found
}

describe('listAudit', () => {
  it('pages through everything once, newest first, across partitions and attempts', async () => {
    const samples = Array.from({ length: 23 }, (_, i) => ({
      tenant: 'pages',
      id: newExecutionId(NOON + i * HOUR_MS),
      atMs: NOON + i * HOUR_MS,
      retentionDays: 10 + (i % 3),
    }))
    await record(samples)
    await record(samples.slice(0, 3).map((sample) => ({ ...sample, attempt: 2 })))
    const expected = samples
      .flatMap((sample, i) =>
        (i < 3 ? [`${sample.id}/2`, `${sample.id}/1`] : [`${sample.id}/1`]).toReversed(),
      )
      .toReversed()
    expect(await allPages({ tenantId: 'pages', limit: 4 })).toEqual(expected)
    expect(await allPages({ tenantId: 'pages', limit: 26 })).toEqual(expected)
  })

  it('filters by agent, exit status and time of enqueueing', async () => {
    const [early, late, other] = await record([
      { tenant: 'filters', agent: 'scout', atMs: NOON },
      { tenant: 'filters', agent: 'scout', atMs: NOON + HOUR_MS, ending: 'oom' },
      { tenant: 'filters', agent: 'medic', atMs: NOON + HOUR_MS },
    ])
    const of = (filter: Partial<InvocationFilter>): Promise<string[]> =>
      allPages({ tenantId: 'filters', limit: 10, ...filter })
    expect(await of({ agentId: 'scout' })).toEqual([`${late}/1`, `${early}/1`])
    expect(await of({ exitStatus: 'oom' })).toEqual([`${late}/1`])
    expect(await of({ to: '2026-11-20T13:00:00.000Z' })).toEqual([`${early}/1`])
    expect((await of({ from: '2026-11-20T13:00:00.000Z' })).toSorted()).toEqual(
      [`${late}/1`, `${other}/1`].toSorted(),
    )
    expect(await of({ from: '2026-11-20T12:00:00.000Z', to: '2026-11-20T12:00:00.001Z' })).toEqual([
      `${early}/1`,
    ])
  })

  it('shows a tenant its own rows and an admin all', async () => {
    const [mine] = await record([{ tenant: 'mine', atMs: NOON }])
    await record([{ tenant: 'theirs', atMs: NOON }])
    expect(await allPages({ tenantId: 'mine', limit: 10 })).toEqual([`${mine}/1`])
    const everything = await t.store.listAudit({ tenantId: null, limit: 500 })
    const tenants = new Set(everything.rows.map((row) => row.tenant_id))
    expect(tenants.has('mine') && tenants.has('theirs')).toBe(true)
  })

  it.each([
    [{ limit: 0 }, 'limit'],
    [{ limit: 501 }, 'limit'],
    [{ limit: 1.5 }, 'limit'],
    [{ limit: 1, cursor: 'bm9wZQ' }, 'cursor'],
    [{ limit: 1, cursor: Buffer.from(`' or 1=1 --`).toString('base64url') }, 'cursor'],
    [{ limit: 1, from: 'yesterday' }, 'from'],
    [{ limit: 1, to: '+200000-01-01T00:00:00Z' }, 'to'],
  ])('refuses %j', async (filter, field) => {
    await expect(t.store.listAudit({ tenantId: 'acme', ...filter })).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(field),
    })
  })
})

describe('listExecutions', () => {
  it('lists each ended execution once, by its last attempt', async () => {
    const id = newExecutionId(NOON)
    await record([{ tenant: 'ended', id, atMs: NOON, ending: 'worker_lost' }])
    await record([{ tenant: 'ended', id, atMs: NOON, attempt: 2 }])
    const { rows, next_cursor } = await t.store.listExecutions({ tenantId: 'ended', limit: 10 })
    expect(next_cursor).toBe(null)
    expect(rows).toMatchObject([
      {
        execution_id: id,
        status: 'ended',
        attempt: 2,
        enqueued_at: '2026-11-20T12:00:00.000Z',
        started_at: '2026-11-20T12:00:00.005Z',
        result: { ok: true, attempt: 2 },
      },
    ])
    const lost = await t.store.listExecutions({ tenantId: 'ended', exitStatus: 'error', limit: 10 })
    expect(lost.rows).toEqual([])
  })
})

describe('findExecution', () => {
  it('knows nothing of another tenant’s execution, an unknown one, or something that is no id', async () => {
    const [id] = await record([{ tenant: 'acme' }])
    expect(await t.store.findExecution('globex', id!)).toBe(null)
    expect(await t.store.findExecution(null, id!)).not.toBe(null)
    expect(await t.store.findExecution(null, newExecutionId())).toBe(null)
    expect(await t.store.findExecution(null, `exe_' or 1=1`)).toBe(null)
    expect(await t.store.findAttempt(id!, 2)).toBe(null)
  })
})

describe('chargedCounts', () => {
  it('counts charged attempts by the UTC day and hour in which they were charged', async () => {
    const tenant = 'charged'
    const end = Date.UTC(2026, 10, 21)
    await record([
      { tenant, chargedAtMs: NOON },
      { tenant, chargedAtMs: NOON + 1 },
      { tenant, agent: 'medic', chargedAtMs: NOON + HOUR_MS - 1 },
      { tenant, chargedAtMs: NOON - 1 },
      { tenant, chargedAtMs: end - 1 },
      { tenant, chargedAtMs: end },
      { tenant, chargedAtMs: null },
      { tenant: 'another', chargedAtMs: NOON },
    ])
    const counts = await t.store.chargedCounts(tenant, NOON + 5)
    expect(counts.day).toEqual({ bucket: 20_777, count: 5 })
    expect(counts.hours.toSorted((a, b) => b.count - a.count)).toEqual([
      { agentId: 'scout', bucket: 498_660, count: 2 },
      { agentId: 'medic', bucket: 498_660, count: 1 },
    ])
    expect(await t.store.chargedCounts('nobody', NOON)).toEqual({
      day: { bucket: 20_777, count: 0 },
      hours: [],
    })
  })
})
