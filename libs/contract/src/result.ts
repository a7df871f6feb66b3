/** The result of an execution: what a tool returns, never an exception. Byte counts are raw, before redaction and truncation. */
import { z } from 'zod'
import { endingSchema, errorClassSchema, exitStatusSchema } from './endings.ts'
import { executionIdSchema } from './ids.ts'
import { isolationSchema } from './isolation.ts'

export const usageSchema = z.strictObject({
  /** User + system CPU time of the whole process tree. */
  cpu_ms: z.number().min(0).nullable(),
  peak_memory_bytes: z.int().min(0).nullable(),
  read_bytes: z.int().min(0).nullable(),
  write_bytes: z.int().min(0).nullable(),
  /** From the program's start to its end. */
  wall_ms: z.number().min(0),
})
/** What the attempt used; null where the backend cannot measure it. */
export type Usage = z.infer<typeof usageSchema>

export const windowUseSchema = z.strictObject({ used: z.int(), limit: z.int(), resets_at: z.iso.datetime() })
export const capsUseSchema = z.strictObject({ tenant_daily: windowUseSchema, agent_hourly: windowUseSchema })
export type CapsUse = z.infer<typeof capsUseSchema>

export const artifactSchema = z.strictObject({
  path: z.string(),
  size: z.int().min(0),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
})
export type Artifact = z.infer<typeof artifactSchema>

export const resultSchema = z.strictObject({
  ok: z.boolean(),
  execution_id: executionIdSchema,
  attempt: z.int().min(1),
  exit_status: exitStatusSchema,
  ending: endingSchema,
  exit_code: z.int().nullable(),
  signal: z.string().nullable(),
  stdout: z.string(),
  stderr: z.string(),
  stdout_bytes: z.int().min(0),
  stderr_bytes: z.int().min(0),
  stdout_truncated: z.boolean(),
  stderr_truncated: z.boolean(),
  /** The script's value as JSON: last expression (python), module.exports or default export (javascript, typescript). */
  value: z.unknown().optional(),
  /** From the moment a worker took the execution to the end of the attempt. */
  duration_ms: z.number().min(0),
  /** From enqueue to that moment. */
  queue_ms: z.number().min(0),
  usage: usageSchema.nullable(),
  artifacts: z.array(artifactSchema),
  tests: z.unknown().optional(),
  session_id: z.string().optional(),
  /** Null where no sandbox was opened. */
  backend: z.string().nullable(),
  isolation: isolationSchema.nullable(),
  trace_id: z.string().nullable(),
  caps: capsUseSchema.nullable(),
  error: errorClassSchema.optional(),
  error_message: z.string().optional(),
  /** Stable word for why, e.g. `tenant_sandbox_disabled`, `worker_lost`. */
  reason: z.string().optional(),
  dimension: z.enum(['tenant_daily', 'agent_hourly', 'tenant_rate', 'unknown']).optional(),
  resets_at: z.iso.datetime().optional(),
  kill_switch: z.boolean().optional(),
})
export type ExecutionResult = z.infer<typeof resultSchema>

export const EXECUTION_STATUSES = ['delayed', 'queued', 'running', 'ended'] as const

/** What is known of an execution at some moment; `result` once it ended. */
export const executionStateSchema = z.strictObject({
  execution_id: executionIdSchema,
  tenant_id: z.string(),
  agent_id: z.string(),
  status: z.enum(EXECUTION_STATUSES),
  attempt: z.int().min(0),
  enqueued_at: z.iso.datetime(),
  started_at: z.iso.datetime().nullable(),
  /** How many executions of the fleet are expected to start before this one; 0 when it is next; null unless queued. */
  position: z.int().min(0).nullable(),
  eta_ms: z.int().min(0).nullable(),
  result: resultSchema.nullable(),
})
export type ExecutionState = z.infer<typeof executionStateSchema>

/** The answer to an enqueue. */
export const acceptedSchema = z.strictObject({
  execution_id: executionIdSchema,
  status: z.enum(EXECUTION_STATUSES),
  position: z.int().min(0).nullable(),
  eta_ms: z.int().min(0).nullable(),
  /** True when the idempotency key named an execution that was already there. */
  deduplicated: z.boolean(),
})
export type Accepted = z.infer<typeof acceptedSchema>
