/** Several workers at once rebuild counters from real audit rows at the edges of day and hour. */
import { createAdmission, type Admission } from '@cofferdam/admission'
import {
  composeAttempt,
  DEFAULT_TENANT_CAPS,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  unmeasuredUsage,
  type AttemptRecord,
} from '@cofferdam/contract'
import { DAY_MS, HOUR_MS, isolatedRedis, untilWindowLasts } from '@cofferdam/embedded/testing'
import { connectRedis } from '@cofferdam/queue'
import { createStore, type Store } from '@cofferdam/store'
import { createTestDatabase, PATIENT_TIMEOUTS } from '@cofferdam/store/testing'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { expect, it } from 'vitest'

function row(tenant: string, agent: string, chargedAtMs: number | null, cpuMs: number): AttemptRecord {
  const atMs = (chargedAtMs ?? Date.now()) - 5
  return composeAttempt({
    executionId: newExecutionId(atMs),
    attempt: 1,
    request: executionRequestSchema.parse({
      tenant_id: tenant,
      agent_id: agent,
      program: { type: 'script', language: 'python', source: '' },
    }),
    outcome: {
      ...outcomeWithoutRun('ok', '', ''),
      began: true,
      usage: { ...unmeasuredUsage(20), cpu_ms: cpuMs },
      reason: null,
      failureReason: null,
    },
    enqueuedAtMs: atMs,
    startedAtMs: atMs,
    finishedAtMs: atMs + 20,
    traceId: null,
    retentionDays: 30,
    caps: null,
    chargedAtMs,
    prices: { default: { call: 0.000_01, cpu_second: 0, gb_second: 0 } },
  })
}

it('several workers rebuild counters and count each row once, in the window of its charge', async () => {
  await using owned = new AsyncDisposableStack()
  const blobDir = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-rebuild-'))
  owned.defer(() => rm(blobDir, { recursive: true, force: true }))
  const server = await isolatedRedis()
  owned.defer(() => server.stop())
  const database = await createTestDatabase()
  owned.defer(() => database.drop())
  const store: Store = owned.use(
    await createStore({ databaseUrl: database.url, blobDir, timeouts: PATIENT_TIMEOUTS }),
  )
  await store.tenants.create(
    { tenant_id: 'edges', caps: { tenant_daily_cpu_seconds: 100, tenant_daily_cost: 1000 } },
    'test',
  )
  // The windows must not end during the test, so it first waits for the end of an hour that is nearly over.
  await untilWindowLasts(HOUR_MS, 30_000)
  const hour = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
  const day = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const rows = [
    row('edges', 'a', day - 1, 1000),
    row('edges', 'a', day, 100),
    row('edges', 'a', hour, 20),
    row('edges', 'b', hour, 3),
    row('edges', 'b', null, 5000),
    row('others', 'a', hour, 7000),
  ]
  // In the first hour of a day, a row from before this hour belongs to yesterday.
  const before = row('edges', 'a', hour - 1, 40)
  await Promise.all([...rows, before].map((record) => store.record(record)))
  const isFirstHour = hour === day
  const runs = isFirstHour ? 3 : 4
  const cpuMs = isFirstHour ? 123 : 163

  let counted = 0
  const admissions: Admission[] = Array.from({ length: 3 }, () =>
    createAdmission({
      redis: owned.adopt(connectRedis(server.url, 'worker'), (redis) => redis.disconnect()),
      countCharged: async (tenantId, atMs, unsettled) => {
        counted += 1
        return store.chargedCounts(tenantId, atMs, unsettled)
      },
      loadCaps: async (tenantId) => (await store.tenants.get(tenantId))?.caps ?? null,
    }),
  )
  const verdicts = await Promise.all(
    admissions.flatMap((admission) =>
      Array.from({ length: 4 }, () =>
        admission.admit(
          { tenantId: 'edges', agentId: 'b', executionId: newExecutionId(), attempt: 1 },
          { cpuMs: 10, cost: 1 },
        ),
      ),
    ),
  )
  expect(verdicts.every((verdict) => verdict.admitted)).toBe(true)
  expect(counted).toBeLessThanOrEqual(3)
  const usage = await admissions[0]!.usage('edges', 'a')
  // The row of `a` at the start of the day is in this hour only if this is the day's first hour.
  expect(usage.agent_hourly?.used).toBe(isFirstHour ? 2 : 1)
  expect((await admissions[1]!.usage('edges', 'b')).agent_hourly?.used).toBe(1 + 12)
  expect(usage.tenant_daily.used).toBe(runs + 12)
  expect(usage.tenant_daily_cpu).toMatchObject({ used: cpuMs / 1000, reserved: 0.12, limit: 100 })
  expect(usage.tenant_daily_cost).toMatchObject({ used: runs * 10, reserved: 12 })

  // A tenant's first cost cap requires that its audit rows are counted. Until that succeeds, nothing is
  // admitted.
  await admissions[0]!.setCaps('edges', DEFAULT_TENANT_CAPS)
  const failing = createAdmission({
    redis: owned.adopt(connectRedis(server.url, 'worker'), (redis) => redis.disconnect()),
    countCharged: () => Promise.reject(new Error('Postgres is away')),
  })
  const key = { tenantId: 'edges', agentId: 'b', executionId: newExecutionId(), attempt: 1 }
  expect((await failing.admit(key)).admitted).toBe(true)
  await failing.setCaps('edges', { ...DEFAULT_TENANT_CAPS, tenant_daily_cost: 1000 })
  expect(await failing.admit({ ...key, executionId: newExecutionId() })).toMatchObject({
    admitted: false,
    dimension: 'unknown',
  })
})
