/** What an attempt whose worker died is charged, by what that worker had told. The parts around it are plain objects. */
import { executionRequestSchema, newExecutionId, newWorkerId, type AttemptRecord } from '@cofferdam/contract'
import type { Interrupted, Taken } from '@cofferdam/queue'
import { createLogger } from '@cofferdam/telemetry'
import { expect, it } from 'vitest'
import { recoverInterrupted } from '../src/recover.ts'
import type { WorkerDeps } from '../src/worker-deps.ts'

const INTERRUPTED: Interrupted = {
  attempt: 1,
  worker: newWorkerId('a'.repeat(12)),
  ref: null,
  backend: 'fake',
  isolation: 'none',
  chargedAtMs: 1500,
  startedAtMs: 1200,
  handedOver: true,
}

it.each([
  { handedOver: true, reason: 'worker_lost', isCharged: true, says: /after it had handed/, call: 'settle' },
  { handedOver: false, reason: 'not_handed_over', isCharged: false, says: /nothing shows/, call: 'refund' },
])(
  'ends as $reason where handedOver is $handedOver',
  async ({ handedOver, reason, isCharged, says, call }) => {
    const calls: string[] = []
    const settled: AttemptRecord[] = []
    const taken = {
      executionId: newExecutionId(),
      request: executionRequestSchema.parse({
        tenant_id: 't',
        agent_id: 'a',
        program: { type: 'script', language: 'python', source: '' },
      }),
      attempt: 1,
      fence: 2,
      enqueuedAtMs: 1000,
      takenAtMs: 2000,
      nowMs: () => 3000,
      signal: new AbortController().signal,
      settle: async (record: AttemptRecord) => void settled.push(record),
    } as unknown as Taken
    const deps = {
      admission: {
        refund: async () => void calls.push('refund'),
        settle: async () => void calls.push('settle'),
      },
      store: { findAttempt: async () => null, record: async () => ({ inserted: true }) },
      policies: { read: async () => null },
      backends: new Map(),
      metrics: { ended: () => undefined },
      logger: createLogger({ service: 'test', level: 'silent' }),
      defaultRetentionDays: 30,
    } as unknown as WorkerDeps

    await recoverInterrupted(taken, { ...INTERRUPTED, handedOver }, deps)

    const [record] = settled
    expect(record?.result).toMatchObject({ ending: 'worker_lost', reason })
    expect(record?.result.error_message).toMatch(says)
    expect(record?.audit.quota_charged).toBe(isCharged)
    expect(calls).toEqual([call])
  },
)
