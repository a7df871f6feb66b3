/** The tables as kysely types. ../migrations is authoritative. Times are read as ISO text (connect.ts). */
import type { ConcurrencyRule, Isolation, Network, Schedule, TenantPolicy } from '@cofferdam/contract'
import type { ColumnType, Generated, Selectable } from 'kysely'

/** Written as JSON text. */
type Json<T> = ColumnType<T, string, string>
type Written = ColumnType<string, string | undefined, string>
/** Set by the database or by the writer's SQL, read as ISO text. */
type Stamp = ColumnType<string, never, Date>

export interface TenantsTable {
  tenant_id: string
  sandbox_enabled: boolean
  compliance_tier: 'standard' | 'regulated' | 'hipaa'
  min_isolation: string
  environments: string[]
  retention_days: number
  redact: string[]
  network: Json<Network>
  packages: Json<TenantPolicy['packages']>
  commands: Json<TenantPolicy['commands']>
  templates: Json<TenantPolicy['templates']>
  encrypt_outputs: boolean
  output_retention_days: number | null
  max_artifact_bytes: number
  max_artifacts_total_bytes: number
  max_artifact_count: number
  run_sessions: boolean
  keep_program: TenantPolicy['keep_program']
  allow_emulation: boolean
  tenant_daily: number | null
  agent_hourly: number | null
  agents: ColumnType<Record<string, number>, string, string>
  concurrency: number | null
  max_queued: number | null
  weight: number
  rate_per_second: number | null
  burst: number
  tenant_daily_cpu_seconds: number | null
  tenant_daily_cost: number | null
  created_at: Stamp
  updated_at: Stamp
}

export interface TenantPolicyEventsTable {
  id: Generated<number>
  tenant_id: string | null
  actor: string
  event_type: string
  before: unknown
  after: unknown
  source: 'api' | 'reconciler' | 'sql'
  via: 'ui' | null
  created_at: Stamp
}

export interface RoutineEventsTable extends Omit<TenantPolicyEventsTable, 'event_type' | 'tenant_id'> {
  tenant_id: string
  routine_id: string
  event_type: 'created' | 'changed' | 'deleted'
}

export interface TemplatesTable {
  tenant_id: string
  template_id: string
  sandbox_environment: 'default-public' | 'internal-only' | null
  network: ColumnType<Network | null, string | null, string | null>
  min_isolation: Isolation | null
  retention_days: number | null
  encrypt_outputs: boolean | null
  updated_by: string
  updated_at: ColumnType<string, Date | undefined, Date>
}

export interface ApiKeysTable {
  id: Generated<string>
  key_sha256: Buffer
  tenant_id: string | null
  template_id: string | null
  read_only: Generated<boolean>
  label: string
  created_at: Stamp
  revoked_at: ColumnType<string | null, never, Date>
  last_used_at: ColumnType<string | null, never, Date>
}

export interface AttemptsTable {
  execution_id: string
  attempt: number
  expires_on: Written
  /** Number of the transaction that recorded it (64 bits, as text). `0` for rows older than the feed. */
  recorded_xid: ColumnType<string, never, never>
}

export interface InvocationsTable {
  execution_id: string
  attempt: number
  tenant_id: string
  agent_id: string
  user_id: string | null
  run_id: string | null
  template_id: string | null
  tool_call_id: string | null
  session_id: string | null
  environment_id: string
  invocation_source: 'queue' | 'chat' | 'scheduled' | 'composition'
  backend: string | null
  isolation: string | null
  interpreter_id: string | null
  vendor_ref: string | null
  passed_over: string | null
  program_kind: string | null
  started_at: string
  finished_at: string
  duration_ms: number
  queue_ms: number
  session_start_ms: number | null
  service_execution_time: number | null
  exit_status: string
  ending: string
  exit_code: number | null
  error_class: string | null
  failure_reason: string | null
  quota_dimension: string | null
  quota_charged: boolean
  charged_at: string | null
  stdout_bytes: number
  stderr_bytes: number
  stdout_truncated: boolean
  stderr_truncated: boolean
  stdout_ref: string | null
  stderr_ref: string | null
  redaction_count: number
  peak_memory_mb: number | null
  cpu_ms: number | null
  charged_cpu_ms: number | null
  charged_gb_seconds: number | null
  cost: number | null
  outbound_hosts: string[]
  rerun_of: string | null
  executed_code_hash: string
  trace_id: string | null
  retention_days: number
  created_at: string
  expires_on: string
}

export interface ResultsTable {
  execution_id: string
  attempt: number
  tenant_id: string
  expires_on: string
  result: unknown
  artifacts: unknown
  stdout_spill_ref: string | null
  stderr_spill_ref: string | null
  /** The request, in the blob store. Null when it was not kept. */
  request_ref: string | null
  /** The program's output, encrypted. Null when `result` has it in clear. */
  sealed: string | null
}

export interface RoutinesTable {
  routine_id: string
  tenant_id: string
  agent_id: string
  template_id: string | null
  name: string
  request: ColumnType<Record<string, unknown>, string, string>
  schedule: ColumnType<Schedule | null, string | null, string | null>
  enabled: boolean
  concurrency: ConcurrencyRule
  callback_url: string | null
  created_at: Stamp
  updated_at: ColumnType<string, Date | undefined, Date>
}

export interface RoutineRunsTable {
  run_id: Generated<number>
  routine_id: string
  tenant_id: string
  trigger_key: string
  scheduled_at: ColumnType<string | null, Date | null, never>
  fired_at: Stamp
  outcome: 'enqueued' | 'skipped' | 'refused'
  reason: string | null
  execution_id: string | null
}

export interface CallbackSecretsTable {
  tenant_id: string
  secret: Buffer
  sealed: boolean
  previous: Buffer | null
  previous_sealed: boolean | null
  rotated_at: ColumnType<string, Date | undefined, Date>
}

export interface CodeInterpretersTable {
  tenant_id: string
  environment: 'default-public' | 'internal-only'
  interpreter_id: string | null
  generation: Generated<number>
  requested_at: Stamp
  provisioned_at: ColumnType<string | null, never, Date | null>
}

export interface WorkspacesTable {
  tenant_id: string
  name: string
  version: number
  files: ColumnType<[path: string, sha256: string, size: number, mode: number][], string, string>
  created_at: Stamp
  updated_at: ColumnType<string, Date | undefined, Date>
}

export interface WorkspaceContentsTable {
  tenant_id: string
  name: string
  sha256: string
  content: Buffer
  sealed: boolean
}

/** One row: the key that encrypts the cursors of lists. */
interface CursorKeyTable {
  is_only_one: Generated<boolean>
  key: Buffer
}

export interface Database {
  cursor_key: CursorKeyTable
  workspaces: WorkspacesTable
  workspace_contents: WorkspaceContentsTable
  code_interpreters: CodeInterpretersTable
  routines: RoutinesTable
  routine_runs: RoutineRunsTable
  routine_events: RoutineEventsTable
  callback_secrets: CallbackSecretsTable
  tenants: TenantsTable
  tenant_policy_events: TenantPolicyEventsTable
  templates: TemplatesTable
  api_keys: ApiKeysTable
  attempts: AttemptsTable
  sandbox_invocations: InvocationsTable
  results: ResultsTable
}

export type TenantRow = Selectable<TenantsTable>
export type InvocationRow = Selectable<InvocationsTable>
export type ResultRow = Selectable<ResultsTable>
