/** Two owners end the same attempt. */
import {
  composeAttempt,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  type AttemptRecord,
} from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { expect, it } from 'vitest'
import { chargeIn } from '../src/attempt-charge.ts'
import { completeAttempt, recordAttempt } from '../src/record-attempt.ts'
import type { WorkerDeps } from '../src/worker-deps.ts'

it('publishes and charges what the first written audit row says', async () => {
  const executionId = newExecutionId()
  const request = executionRequestSchema.parse({
    tenant_id: 't',
    agent_id: 'a',
    program: { type: 'script', language: 'python', source: '' },
  })
  const first = composeAttempt({
    executionId,
    attempt: 1,
    request,
    outcome: { ...outcomeWithoutRun('ok', 'x', 'x'), began: true },
    enqueuedAtMs: 1000,
    startedAtMs: 1000,
    finishedAtMs: 1040,
    traceId: null,
    retentionDays: 30,
    caps: null,
    chargedAtMs: 1000,
  })
  const settled: AttemptRecord[] = []
  const counted: AttemptRecord[] = []
  const taken = {
    executionId,
    request,
    attempt: 1,
    enqueuedAtMs: 1000,
    takenAtMs: 2000,
    nowMs: () => 2005,
    settle: async (record: AttemptRecord) => void settled.push(record),
  } as unknown as Taken
  const deps = {
    store: { record: async () => ({ inserted: false }), findAttempt: async () => first },
    metrics: { ended: (record: AttemptRecord) => void counted.push(record) },
  } as unknown as WorkerDeps

  const outcome = { ...outcomeWithoutRun('worker_lost', 'x', 'x'), began: true }
  const facts = { chargedAtMs: 1000, caps: null, retentionDays: 30 }
  const recorded = await recordAttempt(taken, outcome, facts, deps)
  await completeAttempt(taken, recorded, deps)

  expect(settled).toEqual([first])
  expect(counted).toEqual([first])
  expect(chargeIn(recorded.record)).toEqual({ cpuMs: 40, cost: 0 })
})
