import {
  composeAttempt,
  executionRequestSchema,
  MAX_LIMITS,
  newExecutionId,
  outcomeWithoutRun,
  type AttemptRecord,
} from '@cofferdam/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTestStore, type TestStore } from './open-test-store.ts'

let t: TestStore
beforeAll(async () => {
  t = await openTestStore()
})
afterAll(() => t?.close())

/** A collection with files of these sizes by path. Its blobs do not exist. */
function collectionOf(runId: string, files: Record<string, number>, atMs = Date.now()): AttemptRecord {
  return composeAttempt({
    executionId: newExecutionId(atMs),
    attempt: 1,
    request: executionRequestSchema.parse({
      tenant_id: 'acme',
      agent_id: 'scout',
      run_id: runId,
      program: { type: 'files', op: 'collect', path: 'out' },
      session: { key: runId },
    }),
    outcome: {
      ...outcomeWithoutRun('ok', '', ''),
      reason: null,
      failureReason: null,
      collectedFrom: 'out',
      artifacts: Object.entries(files).map(([path, size]) => ({
        path,
        size,
        sha256: 'a'.repeat(64),
        ref: `ref-of/${path}`,
      })),
    },
    enqueuedAtMs: atMs,
    startedAtMs: atMs,
    finishedAtMs: atMs,
    traceId: null,
    retentionDays: 30,
    caps: null,
    chargedAtMs: null,
  })
}

const query = (runId: string) => ({ tenantId: 'acme', runId, nowMs: Date.now() })

/** Every output of a run, page by page. */
async function everyOutput(runId: string, limit: number) {
  const seen: { path: string; size: number; executionId: string }[] = []
  let after: string | null = null
  do {
    const page = await t.store.listOutputs({ ...query(runId), limit, ...(after === null ? {} : { after }) })
    expect(page.rows.length).toBeLessThanOrEqual(limit)
    seen.push(...page.rows.map(({ path, size, executionId }) => ({ path, size, executionId })))
    after = page.next_cursor
  } while (after !== null)
  return seen
}

it('lists the newest version of each path, in whichever order collections are recorded', async () => {
  const path = fc.constantFrom('a', 'b', 'B', 'deep/a', 'é', '\u{1f600}', '\uffee')
  const collections = fc.array(fc.dictionary(path, fc.nat(1000), { noNullPrototype: true }), {
    maxLength: 25,
  })
  let run = 0
  await fc.assert(
    fc.asyncProperty(
      collections,
      fc.integer({ min: 1, max: 3 }),
      fc.func(fc.nat()),
      async (all, limit, order) => {
        run += 1
        const startMs = Date.now()
        const records = all.map((files, n) => collectionOf(`run-${run}`, files, startMs - 1000 + n))
        const shuffled = records.toSorted(
          (a, b) => order(a.result.execution_id) - order(b.result.execution_id),
        )
        await Promise.all(shuffled.map((record) => t.store.record(record)))
        const newest = new Map<string, { path: string; size: number; executionId: string }>()
        for (const { result } of records)
          for (const { path: name, size } of result.artifacts)
            newest.set(name, { path: name, size, executionId: result.execution_id })
        const seen = await everyOutput(`run-${run}`, limit)
        expect(seen).toEqual([...newest.values()].toSorted((a, b) => (a.path < b.path ? -1 : 1)))
        for (const name of ['a', 'é', 'missing'])
          expect((await t.store.findOutput({ ...query(`run-${run}`), path: name }))?.size).toBe(
            newest.get(name)?.size,
          )
      },
    ),
    { numRuns: 20 },
  )
})

it('stops after 50,000 files, and says that there are older collections', async () => {
  const names = Array.from({ length: MAX_LIMITS.artifact_count }, (_, n) => `file-${n}`)
  const files = Object.fromEntries(names.map((name) => [name, 1]))
  const startMs = Date.now()
  await t.store.record(collectionOf('large', { oldest: 1 }, startMs - 60_000))
  for (let n = 0; n < 13; n += 1) await t.store.record(collectionOf('large', files, startMs - 1000 + n))
  const page = await t.store.listOutputs({ ...query('large'), limit: 500 })
  expect([page.rows.length, page.next_cursor, page.truncated]).toEqual([500, 'file-1447', true])
  expect(await t.store.findOutput({ ...query('large'), path: 'oldest' })).toBe(null)
  expect(await t.store.findOutput({ ...query('large'), path: 'file-7' })).toMatchObject({ size: 1 })
})

it('refuses a page that is too large', async () => {
  await expect(t.store.listOutputs({ ...query('large'), limit: 501 })).rejects.toMatchObject({
    code: 'invalid_request',
  })
})
