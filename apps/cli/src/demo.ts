/** The one execution that `up` runs, through the same door as everybody's: client library, API, queue, worker, sandbox. */
import {
  executionRequestSchema,
  parse,
  type AuditRow,
  type ExecutionRequest,
  type ExecutionResult,
} from '@cofferdam/contract'
import type { Terminal } from './terminal.ts'

/** What it runs: something printed, and a value handed back. */
const DEMO_SOURCE = `import sys
print("Hello from Python", sys.version.split()[0], "in a sandbox")
1 + 1
`

/** The demo as a request of a tenant. */
export const demoRequest = (tenantId: string): ExecutionRequest =>
  parse(executionRequestSchema, {
    tenant_id: tenantId,
    agent_id: 'up',
    program: { type: 'script', language: 'python', source: DEMO_SOURCE },
  })

/** The audit row in the words of its table, without what is empty. */
export function auditLines(row: AuditRow, terminal: Terminal): string[] {
  const shown = [
    `${row.tenant_id}/${row.agent_id}`,
    `${row.ending}, exit code ${row.exit_code ?? 'none'}`,
    `${Math.round(row.duration_ms)} ms`,
    `${row.backend ?? 'no backend'} (${row.isolation ?? 'none'})`,
    row.quota_charged ? 'charged' : 'not charged',
    `kept ${row.retention_days} days`,
  ]
  return [
    `  audit row  ${shown.join(' · ')}`,
    terminal.style(
      'dim',
      `             program sha256 ${row.executed_code_hash.slice(0, 16)}…, stdout ${row.stdout_bytes} B`,
    ),
  ]
}

/** The output of the demo, set off from our own words. */
export function outputLines(result: ExecutionResult): string[] {
  return [...result.stdout.trimEnd().split('\n'), ...result.stderr.trimEnd().split('\n')]
    .filter((text) => text !== '')
    .map((text) => `  | ${text}`)
}
