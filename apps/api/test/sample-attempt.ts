/** Records attempts as a worker would. */
import {
  composeAttempt,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  type ExecutionId,
} from '@cofferdam/contract'
import type { Store } from '@cofferdam/store'

export interface SampleAttempt {
  /** Default `acme`. */
  tenant?: string
  agent: string
  id?: ExecutionId
  reason?: string
}

/** Records an attempt that failed just now. Returns its execution ID. */
export async function recordSample(
  store: Store,
  { tenant = 'acme', agent, id = newExecutionId(), reason = 'it failed' }: SampleAttempt,
): Promise<ExecutionId> {
  const atMs = Date.now()
  await store.record(
    composeAttempt({
      executionId: id,
      attempt: 1,
      request: executionRequestSchema.parse({
        tenant_id: tenant,
        agent_id: agent,
        program: { type: 'script', language: 'python', source: 'print(1)' },
      }),
      outcome: { ...outcomeWithoutRun('error', 'test', reason), failureReason: reason },
      enqueuedAtMs: atMs,
      startedAtMs: atMs,
      finishedAtMs: atMs + 1,
      traceId: '0af7651916cd43dd8448eb211c80319c',
      retentionDays: 30,
      caps: null,
      chargedAtMs: null,
    }),
  )
  return id
}
