/** Requests and records for the queue's tests and measurements. */
import {
  composeAttempt,
  executionRequestSchema,
  newSandboxId,
  outcomeWithoutRun,
  type AttemptRecord,
  type Ending,
  type ExecutionRequest,
  type ExecutionRequestInput,
  type SandboxRef,
} from '@cofferdam/contract'
import type { Taken } from '../src/index.ts'

/** Returns a process function that ends every execution with the same ending. */
export const endWith =
  (ending: Ending, slotMs = 1) =>
  async (taken: Taken): Promise<void> => {
    await taken.settle(recordOf(taken, ending), { slotMs })
  }

/** Returns a valid request. */
export function requestOf(input: Partial<ExecutionRequestInput> = {}): ExecutionRequest {
  return executionRequestSchema.parse({
    tenant_id: 'acme',
    agent_id: 'agent-1',
    program: { type: 'script', language: 'python', source: 'print(1)' },
    ...input,
  })
}

/** Returns the record of an attempt that ran no user code, with the given ending and stdout. */
export function recordOf(taken: Taken, ending: Ending = 'ok', stdout = ''): AttemptRecord {
  const outcome = outcomeWithoutRun(ending, 'test', 'test')
  const text = { text: stdout, bytes: Buffer.byteLength(stdout), truncated: false, ref: null }
  return composeAttempt({
    executionId: taken.executionId,
    attempt: taken.attempt,
    request: taken.request,
    outcome: { ...outcome, stdout: text, reason: null, failureReason: null },
    enqueuedAtMs: taken.enqueuedAtMs,
    startedAtMs: taken.takenAtMs,
    finishedAtMs: taken.takenAtMs + 1,
    traceId: null,
    retentionDays: 30,
    caps: null,
    chargedAtMs: null,
  })
}

export const sandboxRef = (): SandboxRef => ({ backend: 'fake', id: newSandboxId(), handle: { pid: 1 } })
export const SANDBOX_INFO = { backend: 'fake', isolation: 'none' } as const

/** A promise that the test resolves with `open`. */
export function gate(): { opened: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { opened: promise, open: () => resolve() }
}
