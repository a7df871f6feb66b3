/**
 * Turns records of attempts into the parameters of one UNNEST insert: one array per column. Postgres text
 * cannot hold NUL, so in the audit row (not in the result) a printed NUL becomes U+FFFD.
 */
import { idTimeMs, idToUuid, type AttemptRecord, type AuditRow, type ExecutionId } from '@cofferdam/contract'

const DAY_MS = 86_400_000

/** A record whose large text was already moved to the blob store. */
export interface StorableAttempt {
  record: AttemptRecord
  executionId: ExecutionId
  resultJson: string
  artifactsJson: string
  stdoutSpillRef: string | null
  stderrSpillRef: string | null
  requestRef: string | null
  /** Encrypted parts of the result as base64. Null when `resultJson` has them in clear. */
  sealed: string | null
}

type Value = string | number | boolean | null
export interface Column {
  name: string
  type: string
  value(attempt: StorableAttempt): Value
}

/** UTC day on which the attempt's rows expire, `YYYY-MM-DD`. Depends only on ID and retention. */
function expiryDay(executionId: ExecutionId, retentionDays: number): string {
  const day = Math.floor(idTimeMs(executionId) / DAY_MS) + retentionDays
  return new Date(day * DAY_MS).toISOString().slice(0, 10)
}

export const dayOf = (attempt: StorableAttempt): string =>
  expiryDay(attempt.executionId, attempt.record.audit.retention_days)

const text = (value: string | null): string | null =>
  value === null ? null : value.replaceAll('\0', '\uFFFD')

const KEY_COLUMNS: Column[] = [
  { name: 'execution_id', type: 'uuid', value: (a) => idToUuid(a.executionId) },
  { name: 'attempt', type: 'int', value: (a) => a.record.audit.attempt },
  { name: 'tenant_id', type: 'text', value: (a) => text(a.record.audit.tenant_id) },
  { name: 'expires_on', type: 'date', value: dayOf },
]

const TEXT_FIELDS = [
  'agent_id',
  'user_id',
  'run_id',
  'template_id',
  'tool_call_id',
  'session_id',
  'environment_id',
  'invocation_source',
  'backend',
  'isolation',
  'interpreter_id',
  'vendor_ref',
  'passed_over',
  'program_kind',
  'exit_status',
  'ending',
  'error_class',
  'failure_reason',
  'quota_dimension',
  'stdout_ref',
  'stderr_ref',
  'executed_code_hash',
  'trace_id',
  'rerun_of',
] as const satisfies (keyof AuditRow)[]

const OTHER_FIELDS = {
  started_at: 'timestamptz',
  finished_at: 'timestamptz',
  charged_at: 'timestamptz',
  duration_ms: 'float8',
  queue_ms: 'float8',
  session_start_ms: 'float8',
  service_execution_time: 'float8',
  exit_code: 'int',
  quota_charged: 'bool',
  stdout_bytes: 'int8',
  stderr_bytes: 'int8',
  stdout_truncated: 'bool',
  stderr_truncated: 'bool',
  redaction_count: 'int',
  peak_memory_mb: 'float8',
  cpu_ms: 'float8',
  charged_cpu_ms: 'int8',
  charged_gb_seconds: 'float8',
  cost: 'int8',
  retention_days: 'int2',
} as const satisfies Partial<Record<keyof AuditRow, string>>
type OtherField = keyof typeof OTHER_FIELDS

/**
 * Fields of the audit row that columns store. The `void` line below does not compile if one is missing here.
 */
type Stored =
  | (typeof TEXT_FIELDS)[number]
  | OtherField
  | 'tenant_id'
  | 'execution_id'
  | 'attempt'
  | 'outbound_hosts'
void ({} satisfies Record<Exclude<keyof AuditRow, Stored>, never>)

const isOtherField = (name: string): name is OtherField => Object.hasOwn(OTHER_FIELDS, name)

/** Columns of `sandbox_invocations`, the key first. */
export const AUDIT_COLUMNS: Column[] = [
  ...KEY_COLUMNS,
  ...TEXT_FIELDS.map((name): Column => ({ name, type: 'text', value: (a) => text(a.record.audit[name]) })),
  ...Object.keys(OTHER_FIELDS)
    .filter(isOtherField)
    .map((name): Column => ({ name, type: OTHER_FIELDS[name], value: (a) => a.record.audit[name] ?? null })),
  {
    name: 'outbound_hosts',
    type: 'jsonb',
    value: (a) => JSON.stringify(a.record.audit.outbound_hosts.map(text)),
  },
  {
    name: 'created_at',
    type: 'timestamptz',
    value: (a) => new Date(idTimeMs(a.executionId)).toISOString(),
  },
]

/** Columns of `results` beyond the key. */
export const RESULT_COLUMNS: Column[] = [
  { name: 'result', type: 'json', value: (a) => a.resultJson },
  { name: 'artifacts', type: 'json', value: (a) => a.artifactsJson },
  { name: 'stdout_spill_ref', type: 'text', value: (a) => a.stdoutSpillRef },
  { name: 'stderr_spill_ref', type: 'text', value: (a) => a.stderrSpillRef },
  { name: 'request_ref', type: 'text', value: (a) => a.requestRef },
  { name: 'sealed', type: 'text', value: (a) => a.sealed },
]

export const KEY_NAMES: string[] = KEY_COLUMNS.map((column) => column.name)
