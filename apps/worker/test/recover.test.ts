/** The record of an attempt whose worker died: its charge and its streamed output. */
import {
  CofferdamError,
  executionRequestSchema,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  StopReason,
  type AttemptRecord,
} from '@cofferdam/contract'
import type { Interrupted, Taken } from '@cofferdam/queue'
import { defaultPolicy } from '@cofferdam/store'
import { expect, it } from 'vitest'
import { finishWithoutRun } from '../src/process-execution.ts'
import { recover } from '../src/recover.ts'
import type { WorkerDeps } from '../src/worker-deps.ts'

async function recovered(
  streamed: Awaited<ReturnType<Taken['streamed']>>,
  encrypts: boolean | null,
  handedOver = true,
): Promise<{ record: AttemptRecord; calls: string[] }> {
  const calls: string[] = []
  const settled: AttemptRecord[] = []
  const taken = {
    executionId: newExecutionId(),
    request: executionRequestSchema.parse({
      tenant_id: 'acme',
      agent_id: 'a',
      program: { type: 'command', shell: 'true' },
      limits: { stdout_bytes: 1024 },
    }),
    attempt: 1,
    enqueuedAtMs: 1000,
    takenAtMs: 2000,
    nowMs: () => 3000,
    signal: new AbortController().signal,
    streamed: async () => streamed,
    settle: async (record: AttemptRecord) => void settled.push(record),
  } as unknown as Taken
  const deps = {
    backends: new Map(),
    policies: {
      read: async () => {
        if (encrypts === null) throw new Error('Postgres is away')
        return { tenant: { ...defaultPolicy('acme'), encrypt_outputs: encrypts }, template: null }
      },
    },
    store: { findAttempt: async () => null, record: async () => ({ inserted: true }) },
    admission: {
      refund: async () => void calls.push('refund'),
      settle: async () => void calls.push('settle'),
    },
    logger: { warn: () => undefined, error: () => undefined },
    metrics: { ended: () => undefined },
    prices: {},
    defaultRetentionDays: 30,
  } as unknown as WorkerDeps
  const interrupted = {
    attempt: 1,
    worker: newWorkerId('0123456789ab'),
    ref: { backend: 'e2b', id: newSandboxId(), handle: {}, vendorRef: 'box1' },
    backend: 'e2b',
    isolation: 'microvm',
    chargedAtMs: 1500,
    startedAtMs: 2000,
    handedOver,
  } as unknown as Interrupted
  const decision = await recover({ ...taken, interrupted }, deps)
  if (decision === null) throw new Error('nothing was recovered')
  await finishWithoutRun(taken, decision, deps)
  const [record] = settled
  if (record === undefined) throw new Error('nothing was settled')
  return { record, calls }
}

it('keeps the streamed output of a lost attempt, within its limits, and its vendor ref', async () => {
  const stdout = `${'x'.repeat(1023)}é and more`
  const { record } = await recovered({ stdout, stderr: 'err', isWhole: true }, false)
  const { result, audit, encrypt } = record
  expect(result).toMatchObject({
    ending: 'worker_lost',
    stdout: 'x'.repeat(1023),
    stdout_bytes: 1034,
    stdout_truncated: true,
    stderr: 'err',
    stderr_truncated: false,
    vendor_ref: 'box1',
  })
  expect([audit.vendor_ref, audit.stdout_bytes, encrypt]).toEqual(['box1', 1034, undefined])
})

it('marks an output as truncated when the live stream lost its beginning', async () => {
  const {
    record: { result },
  } = await recovered({ stdout: 'end', stderr: '', isWhole: false }, false)
  expect([result.stdout, result.stdout_truncated]).toEqual(['end', true])
})

it('encrypts the output if the policy requires it, and keeps none if the policy is unreadable', async () => {
  const streamed = { stdout: 'secret', stderr: '', isWhole: true }
  expect((await recovered(streamed, true)).record.encrypt).toBe(true)
  expect((await recovered(streamed, null)).record.result.stdout).toBe('')
})

it.each([
  { handedOver: true, reason: 'worker_lost', isCharged: true, says: /after it had handed/, call: 'settle' },
  { handedOver: false, reason: 'not_handed_over', isCharged: false, says: /nothing shows/, call: 'refund' },
])(
  'ends a lost attempt as $reason when handedOver is $handedOver',
  async ({ handedOver, reason, isCharged, says, call }) => {
    const streamed = { stdout: '', stderr: '', isWhole: true }
    const { record, calls } = await recovered(streamed, false, handedOver)
    expect(record.result).toMatchObject({ ending: 'worker_lost', reason })
    expect(record.result.error_message).toMatch(says)
    expect(record.audit.quota_charged).toBe(isCharged)
    expect(calls).toEqual([call])
  },
)

it('waits for Postgres although the caller cancels, and publishes the ending that the audit row has', async () => {
  const stop = new AbortController()
  const lookups = Promise.withResolvers<void>()
  const row = { result: { ending: 'ok' } } as AttemptRecord
  let isAway = true
  const taken = {
    executionId: newExecutionId(),
    request: { tenant_id: 'acme', agent_id: 'a' },
    attempt: 1,
    interrupted: null,
    mayHaveRun: true,
    signal: stop.signal,
  } as unknown as Taken
  const deps = {
    store: {
      findAttempt: async () => {
        lookups.resolve()
        if (isAway) throw new CofferdamError('store_unavailable')
        return row
      },
    },
    logger: { warn: () => undefined },
  } as unknown as WorkerDeps
  const recovering = recover(taken, deps)
  await lookups.promise
  stop.abort(new StopReason('cancelled'))
  isAway = false
  expect(await recovering).toMatchObject({ next: 'republish', record: row })
})
