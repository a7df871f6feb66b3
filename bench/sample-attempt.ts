/** A record, as a worker composes it, of an attempt that printed one line on `fake`. */
import {
  composeAttempt,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  unmeasuredUsage,
  type AttemptRecord,
} from '@cofferdam/contract'

const REQUEST = executionRequestSchema.parse({
  tenant_id: 'bench',
  agent_id: 'scout',
  user_id: 'ann@example.org',
  run_id: 'run-1',
  program: { type: 'script', language: 'python', source: 'print(1 + 1)' },
})

export function sampleAttempt(tenantId = 'bench', agentId = 'scout'): AttemptRecord {
  const atMs = Date.now()
  return composeAttempt({
    executionId: newExecutionId(atMs),
    attempt: 1,
    request: { ...REQUEST, tenant_id: tenantId, agent_id: agentId },
    outcome: {
      ...outcomeWithoutRun('ok', 'sample', 'sample'),
      exitCode: 0,
      stdout: { text: '2\n', bytes: 2, truncated: false, ref: null },
      usage: { ...unmeasuredUsage(20), cpu_ms: 12.5, peak_memory_bytes: 9_437_184 },
      backend: 'fake',
      isolation: 'none',
      openMs: 3,
      began: true,
      outboundHosts: ['pypi.org:443'],
      failureReason: null,
      reason: null,
    },
    enqueuedAtMs: atMs,
    startedAtMs: atMs + 5,
    finishedAtMs: atMs + 45,
    traceId: '0af7651916cd43dd8448eb211c80319c',
    retentionDays: 30,
    caps: null,
    chargedAtMs: atMs + 4,
  })
}
