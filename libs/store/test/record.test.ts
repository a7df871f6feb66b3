import { readdirSync } from 'node:fs'
import { newExecutionId } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createStore } from '../src/index.ts'
import { PATIENT_TIMEOUTS } from '../src/testing.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { sampleAttempt } from './sample-attempt.ts'

const DAY_MS = 86_400_000
let t: TestStore

beforeAll(async () => {
  t = await openTestStore()
})
afterAll(() => t.close())

const rowsOf = async (table: string, id: string): Promise<number> => {
  const { rows } = await t.owner(`select count(*)::int as n from ${table} where execution_id = $1`, [
    id.slice(4),
  ])
  return Number(rows[0]?.['n'])
}

describe('record', () => {
  it('writes audit row and result, which can be read back', async () => {
    const record = sampleAttempt({ ending: 'hard_timeout' })
    expect(await t.store.record(record)).toEqual({ inserted: true })
    expect(await t.store.findAttempt(record.result.execution_id, 1)).toEqual(record)
    expect(await t.store.findExecution('acme', record.result.execution_id)).toEqual({
      result: record.result,
      artifactRefs: [],
      requestRef: null,
      audit: [record.audit],
    })
  })

  it('writes one row for 64 concurrent records of one attempt over two stores', async () => {
    await using other = await createStore({
      databaseUrl: t.url,
      blobDir: t.blobDir,
      timeouts: PATIENT_TIMEOUTS,
    })
    const record = sampleAttempt({ stdout: 'x'.repeat(20_000) })
    const answers = await Promise.all(
      Array.from({ length: 64 }, (_, i) => (i % 2 === 0 ? t.store : other).record(structuredClone(record))),
    )
    expect(answers.filter((answer) => answer.inserted)).toHaveLength(1)
    expect(await rowsOf('sandbox_invocations', record.result.execution_id)).toBe(1)
    expect(await rowsOf('results', record.result.execution_id)).toBe(1)
    expect(await rowsOf('attempts', record.result.execution_id)).toBe(1)
    // The other 63 records had stored their text too. It was deleted again.
    const blobs = readdirSync(t.blobDir, { recursive: true }).filter((path) =>
      String(path).includes(`${record.result.execution_id}/`),
    )
    expect(blobs).toHaveLength(1)
    expect((await t.store.findAttempt(record.result.execution_id, 1))?.result.stdout).toBe(
      record.result.stdout,
    )
  })

  it('keeps one row per attempt even if the retention changed in between', async () => {
    const id = newExecutionId()
    expect(await t.store.record(sampleAttempt({ id, retentionDays: 30 }))).toEqual({ inserted: true })
    expect(await t.store.record(sampleAttempt({ id, retentionDays: 90 }))).toEqual({ inserted: false })
    expect(await t.store.record(sampleAttempt({ id, attempt: 2, retentionDays: 90 }))).toEqual({
      inserted: true,
    })
    const found = await t.store.findExecution('acme', id)
    expect(found?.audit.map((row) => [row.attempt, row.retention_days])).toEqual([
      [1, 30],
      [2, 90],
    ])
    expect(found?.result.attempt).toBe(2)
  })

  it('does not let a bad row in a batch fail the other rows', async () => {
    const records = Array.from({ length: 120 }, () => sampleAttempt())
    for (const at of [3, 50, 119]) records[at]!.audit.executed_code_hash = 'none'
    const outcomes = await Promise.allSettled(records.map((record) => t.store.record(record)))
    const bad = outcomes.flatMap((outcome, i) => (outcome.status === 'rejected' ? [i] : []))
    expect(bad).toEqual([3, 50, 119])
    expect(outcomes[3]).toMatchObject({ reason: { code: 'internal' } })
    expect(await rowsOf('attempts', records[3]!.result.execution_id)).toBe(0)
    expect(await rowsOf('sandbox_invocations', records[4]!.result.execution_id)).toBe(1)
  })

  it('creates missing partitions on demand, also for days far in the past and future', async () => {
    const now = Date.now()
    const records = [-200, -31, 0, 1].flatMap((day) =>
      [1, 30, 180].map((retentionDays) => sampleAttempt({ atMs: now + day * DAY_MS, retentionDays })),
    )
    const outcomes = await Promise.all(records.map((record) => t.store.record(record)))
    expect(outcomes.every((outcome) => outcome.inserted)).toBe(true)
  })

  it('recovers when a cached partition was dropped', async () => {
    const atMs = Date.now() - 40 * DAY_MS
    await t.store.record(sampleAttempt({ atMs }))
    await t.store.retention.dropExpired(Date.now())
    expect(await t.store.record(sampleAttempt({ atMs }))).toEqual({ inserted: true })
  })

  it('keeps NUL and lone surrogates in the result and replaces NUL in the audit row', async () => {
    const record = sampleAttempt({ ending: 'error', stdout: 'a\0b\ud800' })
    record.audit.failure_reason = 'bad\0byte'
    record.audit.outbound_hosts = ['a\0b']
    record.audit.passed_over = 'gvisor circuit_open'
    record.audit.service_execution_time = 0.25
    record.audit.vendor_ref = 'claim/pod'
    record.result.value = { text: 'nul \0 here' }
    await t.store.record(record)
    const found = await t.store.findAttempt(record.result.execution_id, 1)
    expect(found?.result).toEqual(record.result)
    expect(found?.audit.failure_reason).toBe('bad\uFFFDbyte')
    expect(found?.audit.outbound_hosts).toEqual(['a\uFFFDb'])
    expect(found?.audit).toMatchObject({
      passed_over: 'gvisor circuit_open',
      service_execution_time: 0.25,
      vendor_ref: 'claim/pod',
    })
  })

  it('puts large text back, cuts it in lists, and shows the head when the blob is gone', async () => {
    const stdout = 'é'.repeat(100_000)
    const record = sampleAttempt({ tenant: 'large', stdout })
    await t.store.record(record)
    const { execution_id } = record.result
    expect((await t.store.findExecution('large', execution_id))?.result.stdout).toBe(stdout)
    const { rows } = await t.store.listExecutions({ tenantId: 'large', limit: 10 })
    expect(rows[0]?.result).toMatchObject({ stdout: 'é'.repeat(8192), stdout_truncated: true })
    const stored = await t.owner('select stdout_spill_ref as ref from results where execution_id = $1', [
      execution_id.slice(4),
    ])
    await t.store.blobs.delete(String(stored.rows[0]?.['ref']))
    expect((await t.store.findExecution('large', execution_id))?.result).toMatchObject({
      stdout: 'é'.repeat(8192),
      stdout_truncated: true,
    })
  })
})
