import { newExecutionId, type ExecutionId } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { InvocationFilter } from '../src/index.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { sampleAttempt, type Sample } from './sample-attempt.ts'

const HOUR_MS = 3_600_000
/** Noon, so that an hour before and after is the same day. */
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

it('a result of a newer release is shown with fields that this release does not know', async () => {
  const sample = sampleAttempt({ tenant: 'newer', atMs: NOON })
  const usage = { ...sample.result.usage, energy_joules: 4 }
  const result = { ...sample.result, usage, weather: { clouds: 3 } } as typeof sample.result
  await t.store.record({ ...sample, result })
  const { execution_id: id } = result
  expect((await t.store.findAttempt(id, 1))?.result).toMatchObject({ usage, weather: { clouds: 3 } })
  const { rows } = await t.store.listExecutions({ tenantId: 'newer', limit: 5 })
  expect(rows[0]?.result).toMatchObject({ usage, weather: { clouds: 3 } })
})

describe('listAudit', () => {
  it('finds the attempts of one execution, of its own tenant and with the other filters', async () => {
    const ids = await record([1, 2, 3].map(() => ({ tenant: 'one', atMs: NOON, retentionDays: 180 })))
    const [executionId] = ids as [ExecutionId]
    await record([{ tenant: 'one', id: executionId, attempt: 2, atMs: NOON, retentionDays: 180 }])
    const find = (more: Partial<InvocationFilter>) =>
      allPages({ tenantId: 'one', executionId, limit: 1, ...more })
    expect(await find({})).toEqual([`${executionId}/2`, `${executionId}/1`])
    expect(await find({ tenantId: null })).toEqual([`${executionId}/2`, `${executionId}/1`])
    expect(await find({ tenantId: 'other' })).toEqual([])
    expect(await find({ userId: 'nobody' })).toEqual([])
    expect(await find({ from: new Date(NOON - HOUR_MS).toISOString() })).toHaveLength(2)
    expect(await find({ to: new Date(NOON - HOUR_MS).toISOString() })).toEqual([])
  })

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

  it('filters by every other column, for a tenant and for an admin', async () => {
    const [one] = await record([{ tenant: 'others', agent: 'scout', atMs: NOON, ending: 'oom' }])
    await record([{ tenant: 'others', agent: 'medic', atMs: NOON + 1, ending: 'ok' }])
    const [row] = (await t.store.listAudit({ tenantId: 'others', agentId: 'scout', limit: 1 })).rows
    const matching: Partial<InvocationFilter>[] = [
      { userId: 'ann@example.org' },
      { runId: 'run-1' },
      { ending: 'oom' },
      { exitStatus: 'oom' },
      { backend: 'fake' },
      { traceId: '0af7651916cd43dd8448eb211c80319c' },
      { codeHash: row!.executed_code_hash },
      { outboundHost: 'pypi.org' },
      { outboundHost: 'pypi.org:443' },
    ]
    const without: Partial<InvocationFilter>[] = [
      { userId: 'bob@example.org' },
      { runId: 'run-2' },
      { templateId: 'none' },
      { ending: 'crashed' },
      { backend: 'docker' },
      { traceId: '0'.repeat(32) },
      { codeHash: '0'.repeat(64) },
      { outboundHost: 'pypi.or' },
      { outboundHost: 'pypi.org:80' },
      { outboundHost: '%' },
    ]
    for (const tenantId of ['others', null]) {
      const of = (filter: Partial<InvocationFilter>): Promise<string[]> =>
        allPages({ tenantId, agentId: 'scout', limit: 500, ...filter })
      for (const filter of matching) expect(await of(filter), JSON.stringify(filter)).toContain(`${one}/1`)
      for (const filter of without) expect(await of(filter), JSON.stringify(filter)).not.toContain(`${one}/1`)
    }
  })

  it('finds one row among many in pages that may be empty, and ends', async () => {
    const many = Array.from({ length: 5200 }, (_, i) => ({ tenant: 'many', atMs: NOON - 24 * HOUR_MS + i }))
    for (let from = 0; from < many.length; from += 1000) await record(many.slice(from, from + 1000))
    const [rare] = await record([{ tenant: 'many', atMs: NOON - 25 * HOUR_MS, ending: 'disk_limit' }])
    for (const tenantId of ['many', null]) {
      const first = await t.store.listAudit({ tenantId, ending: 'disk_limit', limit: 10 })
      expect(first).toMatchObject({ rows: [], next_cursor: expect.any(String) })
      expect(await allPages({ tenantId, ending: 'disk_limit', limit: 10 })).toEqual([`${rare}/1`])
    }
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
  it('lists each ended execution once, with its last attempt', async () => {
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
  it("finds nothing for another tenant's execution, an unknown one, or an invalid ID", async () => {
    const [id] = await record([{ tenant: 'acme' }])
    expect(await t.store.findExecution('globex', id!)).toBe(null)
    expect(await t.store.findExecution(null, id!)).not.toBe(null)
    expect(await t.store.findExecution(null, newExecutionId())).toBe(null)
    expect(await t.store.findExecution(null, `exe_' or 1=1`)).toBe(null)
    expect(await t.store.findAttempt(id!, 2)).toBe(null)
  })
})

describe('chargedCounts', () => {
  it('counts charged attempts by the UTC day and hour of the charge', async () => {
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
    expect(counts.day).toEqual({ bucket: 20_777, count: 5, cpuMs: 65, cost: 0 })
    expect(counts.hours.toSorted((a, b) => b.count - a.count)).toEqual([
      { agentId: 'scout', bucket: 498_660, count: 2 },
      { agentId: 'medic', bucket: 498_660, count: 1 },
    ])
    expect(await t.store.chargedCounts('nobody', NOON)).toEqual({
      day: { bucket: 20_777, count: 0, cpuMs: 0, cost: 0 },
      hours: [],
      ended: [],
    })
  })
})
