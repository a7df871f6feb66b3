/** The records in the outbox are stored, and admission's counters then match their rows. */
import { createAdmission } from '@cofferdam/admission'
import {
  composeAttempt,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  type AttemptRecord,
  type ExecutionId,
} from '@cofferdam/contract'
import { HOUR_MS, isolatedRedis, untilWindowLasts } from '@cofferdam/embedded/testing'
import { connectRedis } from '@cofferdam/queue'
import { createStore } from '@cofferdam/store'
import { createTestDatabase, PATIENT_TIMEOUTS } from '@cofferdam/store/testing'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { expect, it } from 'vitest'
import { storeOutbox } from '../src/record-attempt.ts'
import type { WorkerDeps } from '../src/worker-deps.ts'

const request = executionRequestSchema.parse({
  tenant_id: 'acme',
  agent_id: 'a',
  program: { type: 'script', language: 'python', source: '' },
  limits: { hard_timeout_ms: 2000, soft_timeout_ms: 1000 },
})

function record(
  executionId: ExecutionId,
  ending: 'cancelled' | 'ok',
  chargedAtMs: number | null,
): AttemptRecord {
  return composeAttempt({
    executionId,
    attempt: 1,
    request,
    outcome: { ...outcomeWithoutRun(ending, 'x', 'x'), began: chargedAtMs !== null },
    enqueuedAtMs: Date.now(),
    startedAtMs: Date.now(),
    finishedAtMs: Date.now() + 1500,
    traceId: null,
    retentionDays: 30,
    caps: null,
    chargedAtMs,
  })
}

it('refunds attempts whose row charges nothing, and settles the others once', async () => {
  await using owned = new AsyncDisposableStack()
  const blobDir = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-outbox-'))
  owned.defer(() => rm(blobDir, { recursive: true, force: true }))
  const server = await isolatedRedis()
  owned.defer(() => server.stop())
  const database = await createTestDatabase()
  owned.defer(() => database.drop())
  await untilWindowLasts(HOUR_MS, 20_000)
  const store = owned.use(
    await createStore({ databaseUrl: database.url, blobDir, timeouts: PATIENT_TIMEOUTS }),
  )
  await store.tenants.create({ tenant_id: 'acme', caps: { tenant_daily_cpu_seconds: 100 } }, 'test')
  const redis = owned.adopt(connectRedis(server.url, 'worker'), (one) => one.disconnect())
  const admission = createAdmission({
    redis,
    countCharged: (tenantId, atMs, unsettled) => store.chargedCounts(tenantId, atMs, unsettled),
    loadCaps: async (tenantId) => (await store.tenants.get(tenantId))?.caps ?? null,
  })
  const deps = {
    admission,
    store,
    policies: { read: async () => ({ tenant: null, template: null, templateId: undefined, caps: null }) },
  } as unknown as WorkerDeps
  const used = async () => {
    const { tenant_daily, agent_hourly, tenant_daily_cpu } = await admission.usage('acme', 'a')
    return [tenant_daily.used, agent_hourly?.used, tenant_daily_cpu?.used, tenant_daily_cpu?.reserved]
  }

  // Two workers died: the first before its attempt began (the execution was then cancelled in the queue), the
  // second after it had put its ending into the outbox.
  const [cancelled, ended] = [newExecutionId(), newExecutionId()]
  const chargedAt = await Promise.all(
    [cancelled, ended].map(async (executionId) => {
      const key = { tenantId: 'acme', agentId: 'a', executionId, attempt: 1 }
      const verdict = await admission.admit(key, { cpuMs: 2000, cost: 0 })
      return verdict.admitted ? verdict.chargedAtMs : null
    }),
  )
  expect(await used()).toEqual([2, 2, 0, 4])
  const records = [record(cancelled, 'cancelled', null), record(ended, 'ok', chargedAt[1]!)]
  await storeOutbox(records, deps)
  expect(await used()).toEqual([1, 1, 1.5, 0])
  await storeOutbox(records, deps)
  expect(await used()).toEqual([1, 1, 1.5, 0])
  const rows = (await store.listAudit({ tenantId: 'acme', limit: 10 })).rows
  expect(rows.map((row) => [row.ending, row.quota_charged, row.charged_cpu_ms]).toSorted()).toEqual([
    ['cancelled', false, null],
    ['ok', true, 1500],
  ])
})
