/** Attempts that were charged a given cost, as a worker records them. */
import {
  composeAttempt,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  type AttemptRecord,
} from '@cofferdam/contract'

/** One attempt of `agent` that was charged at `atMs`. */
export function sampleCharged(tenant: string, agent: string, atMs: number, costMicro: number): AttemptRecord {
  return composeAttempt({
    executionId: newExecutionId(atMs),
    attempt: 1,
    request: executionRequestSchema.parse({
      tenant_id: tenant,
      agent_id: agent,
      program: { type: 'script', language: 'python', source: '' },
    }),
    outcome: { ...outcomeWithoutRun('ok', '', ''), began: true, reason: null, failureReason: null },
    enqueuedAtMs: atMs,
    startedAtMs: atMs,
    finishedAtMs: atMs + 10,
    traceId: null,
    retentionDays: 30,
    caps: null,
    chargedAtMs: atMs,
    prices: { default: { call: costMicro / 1_000_000, cpu_second: 0, gb_second: 0 } },
  })
}
