/** The audit row of one attempt, as the audit API shows it. */
import { z } from 'zod'
import { isolationSchema } from './isolation.ts'
import { BOUNDS } from './limits.ts'

export const auditRowSchema = z.strictObject({
  execution_id: z.string(),
  attempt: z.int().min(1),
  tenant_id: z.string(),
  agent_id: z.string(),
  user_id: z.string().nullable(),
  run_id: z.string().nullable(),
  template_id: z.string().nullable(),
  tool_call_id: z.string().nullable(),
  session_id: z.string().nullable(),
  environment_id: z.string(),
  invocation_source: z.enum(['queue', 'chat', 'scheduled', 'composition']),
  backend: z.string().nullable(),
  isolation: isolationSchema.nullable(),
  interpreter_id: z.string().nullable(),
  /** The sandbox's name in the vendor's logs. Null when no sandbox of a vendor was opened. */
  vendor_ref: z.string().max(BOUNDS.vendorRefLength).nullable().default(null),
  /** Preferred backends that could not open a sandbox, each with its reason, or null. */
  passed_over: z.string().max(BOUNDS.passedOverLength).nullable().default(null),
  started_at: z.iso.datetime(),
  finished_at: z.iso.datetime(),
  duration_ms: z.number().min(0),
  queue_ms: z.number().min(0),
  session_start_ms: z.number().min(0).nullable(),
  /** The vendor's own figure for the duration, in its unit, or null. */
  service_execution_time: z.number().min(0).nullable().default(null),
  exit_status: z.string(),
  ending: z.string(),
  exit_code: z.int().nullable(),
  error_class: z.string().nullable(),
  failure_reason: z.string().max(BOUNDS.failureReasonLength).nullable(),
  quota_dimension: z.string().nullable(),
  /** Whether the attempt counts against the caps. The counter of a window equals its rows with true. */
  quota_charged: z.boolean(),
  /** When admission charged it. Null when not charged. */
  charged_at: z.iso.datetime().nullable(),
  stdout_bytes: z.int().min(0),
  stderr_bytes: z.int().min(0),
  stdout_truncated: z.boolean(),
  stderr_truncated: z.boolean(),
  stdout_ref: z.string().nullable(),
  stderr_ref: z.string().nullable(),
  redaction_count: z.int().min(0),
  peak_memory_mb: z.number().min(0).nullable(),
  cpu_ms: z.number().min(0).nullable(),
  /** CPU milliseconds charged. Null when not charged. Estimated if `cpu_ms` is null. */
  charged_cpu_ms: z.int().min(0).nullable(),
  /** Memory limit × run time. Null when not charged. */
  charged_gb_seconds: z.number().min(0).nullable(),
  /** Cost in micro-units, by the prices at that time. Null when not charged. */
  cost: z.int().min(0).nullable(),
  outbound_hosts: z.array(z.string()),
  /** SHA-256 of the program as submitted, in lowercase hex. */
  executed_code_hash: z.string().regex(/^[0-9a-f]{64}$/),
  trace_id: z.string().nullable(),
  retention_days: z.int().min(1).max(180),
})
export type AuditRow = z.infer<typeof auditRowSchema>
