/** An interrupted execution whose recovery fails on our side. */
import { executionRequestSchema, newExecutionId, newWorkerId, type AttemptRecord } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { createLogger } from '@cofferdam/telemetry'
import { expect, it } from 'vitest'
import { handleExecution } from '../src/handle-execution.ts'
import type { WorkerDeps } from '../src/worker-deps.ts'

it('neither refunds nor reruns an interrupted attempt when its recovery fails', async () => {
  const executionId = newExecutionId()
  const calls: string[] = []
  const settled: AttemptRecord[] = []
  const taken = {
    executionId,
    request: executionRequestSchema.parse({
      tenant_id: 't',
      agent_id: 'a',
      program: { type: 'script', language: 'python', source: '' },
      retry: { max_attempts: 5, on: ['provisioning'] },
    }),
    attempt: 1,
    fence: 2,
    enqueuedAtMs: 1000,
    takenAtMs: 2000,
    mayHaveRun: false,
    nowMs: () => 3000,
    traceparent: null,
    lane: 'interactive',
    interrupted: {
      attempt: 1,
      worker: newWorkerId('a'.repeat(12)),
      ref: null,
      backend: 'fake',
      isolation: 'none',
      chargedAtMs: 1500,
      startedAtMs: 1200,
      handedOver: true,
    },
    signal: new AbortController().signal,
    settle: async (record: AttemptRecord) => void settled.push(record),
    retry: async () => void calls.push('retry'),
  } as unknown as Taken
  const deps = {
    admission: {
      refund: async () => void calls.push('refund'),
      chargedAtMs: async () => 1500,
      settle: async () => void calls.push('settle'),
    },
    store: {
      findAttempt: () => Promise.reject(new TypeError('a bug of ours')),
      record: async () => ({ inserted: true }),
    },
    backends: new Map(),
    metrics: { ended: () => undefined },
    logger: createLogger({ service: 'test', level: 'silent' }),
    defaultRetentionDays: 30,
  } as unknown as WorkerDeps

  await handleExecution(taken, deps)

  expect(calls).toEqual(['settle'])
  expect(settled.map(({ result, audit }) => [result.ending, audit.quota_charged])).toEqual([
    ['sandbox_lost', true],
  ])
})
