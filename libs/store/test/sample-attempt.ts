/** Attempts as the worker composes them, for the tests of this package. */
import {
  composeAttempt,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  type AttemptFacts,
  type AttemptRecord,
  type Ending,
  type ExecutionId,
  unmeasuredUsage,
} from '@cofferdam/contract'

export interface Sample {
  id?: ExecutionId
  attempt?: number
  tenant?: string
  agent?: string
  ending?: Ending
  stdout?: string
  atMs?: number
  retentionDays?: number
  chargedAtMs?: number | null
}

export function sampleAttempt(sample: Sample = {}): AttemptRecord {
  const atMs = sample.atMs ?? Date.now()
  const ending = sample.ending ?? 'ok'
  const stdout = sample.stdout ?? '2\n'
  const facts: AttemptFacts = {
    executionId: sample.id ?? newExecutionId(atMs),
    attempt: sample.attempt ?? 1,
    request: executionRequestSchema.parse({
      tenant_id: sample.tenant ?? 'acme',
      agent_id: sample.agent ?? 'scout',
      user_id: 'ann@example.org',
      run_id: 'run-1',
      program: { type: 'script', language: 'python', source: 'print(1 + 1)' },
    }),
    outcome: {
      ...outcomeWithoutRun(ending, 'sample', 'it did not work'),
      exitCode: ending === 'ok' ? 0 : 1,
      stdout: { text: stdout, bytes: Buffer.byteLength(stdout), truncated: false, ref: null },
      usage: { ...unmeasuredUsage(20), cpu_ms: 12.5, peak_memory_bytes: 9_437_184 },
      backend: 'fake',
      isolation: 'jail',
      openMs: 3,
      began: true,
      outboundHosts: ['pypi.org:443'],
      ...(ending === 'ok' ? { failureReason: null, reason: null } : {}),
    },
    enqueuedAtMs: atMs,
    startedAtMs: atMs + 5,
    finishedAtMs: atMs + 45,
    traceId: '0af7651916cd43dd8448eb211c80319c',
    retentionDays: sample.retentionDays ?? 30,
    caps: null,
    chargedAtMs: sample.chargedAtMs === undefined ? atMs + 4 : sample.chargedAtMs,
  }
  return composeAttempt(facts)
}
