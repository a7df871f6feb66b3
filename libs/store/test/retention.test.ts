import { mkdirSync } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { newExecutionId } from '@cofferdam/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { sampleAttempt } from './sample-attempt.ts'

const DAY_MS = 86_400_000
let t: TestStore

beforeEach(async () => {
  t = await openTestStore()
})
afterEach(() => t.close())

const partitions = async (): Promise<string[]> => {
  const { rows } = await t.owner(
    `select inhrelid::regclass::text as name from pg_inherits
     where inhparent in ('sandbox_invocations'::regclass, 'results'::regclass) order by 1`,
  )
  return rows.map((row) => String(row['name']))
}
const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

/** An attempt whose request is in the blob store. */
async function keptAttempt(tenant: string, atMs: number) {
  const record = sampleAttempt({ tenant, atMs, ending: 'error' })
  const sink = await t.store.blobs.create({
    tenantId: tenant,
    executionId: record.result.execution_id,
    attempt: 1,
    name: 'request',
    encrypt: false,
  })
  await sink.write(Buffer.from('{"version":1'))
  return { ...record, requestRef: await sink.commit() }
}

describe('retention', () => {
  it('drops rows, results and blobs when their day is over, and nothing else', async () => {
    const now = Date.now()
    const stdout = 'x'.repeat(20_000)
    const old = sampleAttempt({ atMs: now - 32 * DAY_MS, retentionDays: 30, stdout })
    const longer = sampleAttempt({ atMs: now - 32 * DAY_MS, retentionDays: 60, stdout })
    const expiresToday = sampleAttempt({ atMs: now - 30 * DAY_MS, retentionDays: 30, stdout })
    for (const record of [old, longer, expiresToday]) await t.store.record(record)
    const { days, blobs } = await t.store.retention.dropExpired(now)
    expect(days).toEqual([new Date(now - 2 * DAY_MS).toISOString().slice(0, 10)])
    expect(blobs).toBe(1)
    expect(await t.store.findAttempt(old.result.execution_id, 1)).toBe(null)
    for (const kept of [longer, expiresToday])
      expect(await t.store.findAttempt(kept.result.execution_id, 1)).toEqual(kept)
    expect(await t.store.retention.dropExpired(now)).toEqual({ days: [], blobs: 0 })
  })

  it('deletes full outputs before their rows if the tenant requires it, and no others', async () => {
    const now = Date.now()
    const stdout = 'x'.repeat(20_000)
    await t.store.tenants.create({ tenant_id: 'brief', policy: { output_retention_days: 7 } }, 'ops')
    await t.store.tenants.create({ tenant_id: 'long', policy: {} }, 'ops')
    const of = async (tenant: string, days: number) => {
      const record = sampleAttempt({ tenant, atMs: now - days * DAY_MS, stdout })
      await t.store.record(record)
      return record.result.execution_id
    }
    const [old, seven, other] = [await of('brief', 8), await of('brief', 7), await of('long', 8)]
    expect(await t.store.retention.dropExpired(now)).toEqual({ days: [], blobs: 1 })
    // The row and the head of its text stay, marked as cut.
    const found = await t.store.findExecution('brief', old)
    expect(found?.audit).toHaveLength(1)
    expect(found?.result.stdout.length).toBeLessThan(20_000)
    expect(found?.result).toMatchObject({ stdout_truncated: true })
    for (const id of [seven, other])
      expect((await t.store.findExecution(null, id))?.result.stdout).toBe(stdout)
    await t.store.tenants.setPolicy('brief', { output_retention_days: null }, 'ann')
    expect((await t.store.tenants.get('brief'))?.policy.output_retention_days).toBe(null)
    expect(await t.store.retention.dropExpired(now)).toEqual({ days: [], blobs: 0 })
  })

  it('deletes kept requests with full outputs, and names them no more once their rows are gone', async () => {
    const now = Date.now()
    const daysAgo = (days: number) => now - days * DAY_MS
    await t.store.tenants.create({ tenant_id: 'brief', policy: { output_retention_days: 7 } }, 'ops')
    const of = async (tenant: string, days: number) => {
      const { requestRef, ...record } = await keptAttempt(tenant, daysAgo(days))
      await t.store.record({ ...record, requestRef })
      return { id: record.result.execution_id, requestRef }
    }
    const [swept, young, row, long] = [
      await of('brief', 8),
      await of('brief', 7),
      await of('acme', 32),
      await of('acme', 8),
    ]
    const sizes = async () =>
      Promise.all(
        [swept, young, row, long].map(async (one) => (await t.store.blobs.read(one.requestRef))?.total),
      )
    expect(await sizes()).toEqual([12, 12, 12, 12])
    expect(await t.store.retention.dropExpired(now)).toMatchObject({ blobs: 2 })
    expect(await sizes()).toEqual([undefined, 12, undefined, 12])
    // The row still has `requestRef`, so a caller learns that the request was kept and is deleted now.
    expect((await t.store.findExecution('brief', swept.id))?.requestRef).toBe(swept.requestRef)
    expect(await t.store.findExecution('acme', row.id)).toBe(null)
    expect(await t.store.findAttempt(long.id, 1)).toMatchObject({ requestRef: long.requestRef })
  })

  it("does not drop early, whatever the caller's clock says", async () => {
    const record = sampleAttempt()
    await t.store.record(record)
    expect(await t.store.retention.dropExpired(Date.now() + 400 * DAY_MS)).toMatchObject({ days: [] })
    expect(await t.store.findAttempt(record.result.execution_id, 1)).toEqual(record)
  })

  it('drops only partitions whose name and bounds agree', async () => {
    await t.owner(`create table sandbox_invocations_20200101 (like sandbox_invocations including all);
      alter table sandbox_invocations attach partition sandbox_invocations_20200101
        for values from ('2099-01-01') to ('2099-01-02');
      create table results_20200102 (mine int);
      create table sandbox_invocations_2020 (like sandbox_invocations including all);
      alter table sandbox_invocations attach partition sandbox_invocations_2020
        for values from ('2020-01-03') to ('2020-01-04')`)
    expect(await t.store.retention.dropExpired(Date.now())).toMatchObject({ days: [] })
    expect(await partitions()).toEqual(['sandbox_invocations_2020', 'sandbox_invocations_20200101'])
    expect((await t.owner('select * from results_20200102')).rows).toEqual([])
  })

  it('drops more days than one call handles', async () => {
    const now = Date.now()
    const records = Array.from({ length: 40 }, (_, i) =>
      sampleAttempt({ atMs: now - (10 + i) * DAY_MS, retentionDays: 1 }),
    )
    await Promise.all(records.map((record) => t.store.record(record)))
    expect((await t.store.retention.dropExpired(now)).days).toHaveLength(40)
    expect(await partitions()).toEqual([])
    expect((await t.owner('select from attempts')).rowCount).toBe(0)
  })

  it('creates partitions of every retention ahead of time, also from many processes at once', async () => {
    await t.store.tenants.create({ tenant_id: 'brief', policy: { retention_days: 3 } }, 'ops')
    const now = Date.now()
    await Promise.all(Array.from({ length: 4 }, () => t.store.retention.ensurePartitions(now)))
    const names = [3, 4, 30, 31].map((days) =>
      new Date(now + days * DAY_MS).toISOString().slice(0, 10).replaceAll('-', ''),
    )
    expect(await partitions()).toEqual([
      ...names.map((day) => `results_${day}`),
      ...names.map((day) => `sandbox_invocations_${day}`),
    ])
  })

  it('deletes the blobs of old executions that never got a row', async () => {
    const write = async (atMs: number): Promise<string> => {
      const sink = await t.store.blobs.create({
        tenantId: 'acme',
        executionId: newExecutionId(atMs),
        attempt: 1,
        name: 'stdout',
        encrypt: false,
      })
      await sink.write(Buffer.from('orphan'))
      return await sink.commit()
    }
    const old = await write(Date.now() - 5 * DAY_MS)
    const young = await write(Date.now() - DAY_MS)
    mkdirSync(join(t.blobDir, 'stranger', '20200101', 'not-ours'), { recursive: true })
    expect(await t.store.retention.dropExpired(Date.now())).toMatchObject({ blobs: 1 })
    expect(await t.store.blobs.read(old)).toBe(null)
    expect((await t.store.blobs.read(young))?.total).toBe(6)
    expect(await exists(join(t.blobDir, 'stranger', '20200101', 'not-ours'))).toBe(true)
  })
})
