/** Two owners of one attempt end it. The parts around are plain objects that remember what they were told. */
import {
  composeAttempt,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  type AttemptRecord,
} from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { expect, it } from 'vitest'
import { publish } from '../src/close-attempt.ts'
import type { WorkerDeps } from '../src/worker-deps.ts'

it('publishes and settles what the row says that was there first, not what it had composed itself', async () => {
  const executionId = newExecutionId()
  const request = executionRequestSchema.parse({
    tenant_id: 't',
    agent_id: 'a',
    program: { type: 'script', language: 'python', source: '' },
  })
  const ended = (ending: 'ok' | 'worker_lost', runMs: number): AttemptRecord =>
    composeAttempt({
      executionId,
      attempt: 1,
      request,
      outcome: { ...outcomeWithoutRun(ending, 'x', 'x'), began: true },
      enqueuedAtMs: 1000,
      startedAtMs: 1000,
      finishedAtMs: 1000 + runMs,
      traceId: null,
      retentionDays: 30,
      caps: null,
      chargedAtMs: 1000,
    })
  const first = ended('ok', 40)
  const settled: AttemptRecord[] = []
  const taken = {
    executionId,
    request,
    takenAtMs: 2000,
    nowMs: () => 2005,
    settle: async (record: AttemptRecord) => void settled.push(record),
  } as unknown as Taken
  const deps = {
    store: { record: async () => ({ inserted: false }), findAttempt: async () => first },
  } as unknown as WorkerDeps

  expect(await publish(taken, ended('worker_lost', 15_000), deps)).toEqual({ cpuMs: 40, cost: 0 })
  expect(settled).toEqual([first])
})
