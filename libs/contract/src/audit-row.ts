/** The audit row of one attempt, as the audit API shows it. */
import { z } from 'zod'
import { executionIdSchema } from './ids.ts'
import { isolationSchema } from './isolation.ts'
import { BOUNDS } from './limits.ts'
import { timeSchema } from './name.ts'

const bytes = z.int().min(0)

/** A name that a request need not contain. Null if the request has none. */
const given = (description: string, example: string) =>
  z
    .string()
    .nullable()
    .meta({ description: `${description} Null if the request named none.`, example })

export const auditRowSchema = z.strictObject({
  execution_id: z.string().meta({
    description: 'The execution.',
    example: 'exe_01a1fa08335671eda83cd82154726441',
  }),
  attempt: z.int().min(1).meta({ description: 'Number of the attempt, from 1.', example: 1 }),
  tenant_id: z.string().meta({ description: 'The tenant that it was charged to.', example: 'demo' }),
  agent_id: z.string().meta({ description: 'The agent that asked.', example: 'analyst' }),
  user_id: given('The user on whose behalf the agent worked.', 'user-7'),
  run_id: given('The turn of the agent.', 'run-2026-11-20-1'),
  template_id: z.string().nullable().meta({
    description: 'The template that applied. Null if none did.',
    example: 'strict',
  }),
  tool_call_id: given('The tool call that it answered.', 'toolu_01A2'),
  session_id: z.string().nullable().meta({
    description: 'The session’s sandbox. Null outside of sessions.',
    example: 'ses_01a1fa08335671eda83cd82154726441',
  }),
  environment_id: z.string().meta({
    description: 'The environment that it ran in.',
    example: 'default-public',
  }),
  invocation_source: z.enum(['queue', 'chat', 'scheduled', 'composition']).meta({
    description: 'What started the execution.',
  }),
  backend: z.string().nullable().meta({
    description: 'The backend that ran it. Null when no sandbox was opened.',
    example: 'docker',
  }),
  isolation: isolationSchema.nullable().meta({
    description: 'How strongly the sandbox was isolated. Null when no sandbox was opened.',
  }),
  interpreter_id: z.string().nullable().meta({
    description: 'The tenant’s own code interpreter at the vendor, in which it ran. Null without one.',
    example: 'acme_public-0a1b2c3d4e',
  }),
  vendor_ref: z.string().max(BOUNDS.vendorRefLength).nullable().default(null).meta({
    description: 'The sandbox’s name in the vendor’s logs. Null when no sandbox of a vendor was opened.',
    example: 'sandbox-claim-7/pod-7',
  }),
  passed_over: z
    .string()
    .max(BOUNDS.passedOverLength)
    .nullable()
    .default(null)
    .meta({
      description:
        'Preferred backends that did not fit or could not open a sandbox, each with its reason. Null if ' +
        'there are none.',
      example: 'gvisor backend_unavailable',
    }),
  started_at: timeSchema.meta({ description: 'When a worker took it.' }),
  finished_at: timeSchema.meta({ description: 'When the attempt ended.' }),
  duration_ms: z.number().min(0).meta({
    description: 'From started_at to finished_at, milliseconds.',
    example: 82,
  }),
  queue_ms: z.number().min(0).meta({
    description: 'From enqueue to started_at, milliseconds.',
    example: 16,
  }),
  session_start_ms: z.number().min(0).nullable().meta({
    description: 'Time to open the sandbox, milliseconds. Null when none was opened.',
    example: 3.2,
  }),
  service_execution_time: z.number().min(0).nullable().default(null).meta({
    description: 'The vendor’s own figure for the duration, in its unit. Null if it gives none.',
    example: 71,
  }),
  exit_status: z.string().meta({ description: 'Coarse class of the ending.', example: 'ok' }),
  ending: z.string().meta({ description: 'How it ended, exactly.', example: 'ok' }),
  exit_code: z.int().nullable().meta({
    description: 'Exit status of the program. Null if a signal killed it or nothing ran.',
    example: 0,
  }),
  error_class: z.string().nullable().meta({
    description: 'Error class that the agent saw. Null if the ending is ok.',
    example: 'SandboxTimeout',
  }),
  failure_reason: z.string().max(BOUNDS.failureReasonLength).nullable().meta({
    description: 'What went wrong, redacted. Null if the ending is ok.',
    example: 'The program exited with code 1.',
  }),
  quota_dimension: z.string().nullable().meta({
    description: 'The cap that refused it. Null if none did.',
    example: 'tenant_daily',
  }),
  quota_charged: z.boolean().meta({
    description:
      'Whether the attempt counts against the caps. The counter of a window equals the number of attempts ' +
      'charged in it.',
  }),
  charged_at: timeSchema
    .nullable()
    .meta({ description: 'When admission charged it. Null when not charged.' }),
  stdout_bytes: bytes.meta({ description: 'Bytes that the program wrote to stdout.', example: 2 }),
  stderr_bytes: bytes.meta({ description: 'Bytes that the program wrote to stderr.', example: 0 }),
  stdout_truncated: z.boolean().meta({ description: 'Whether the result has only a part of stdout.' }),
  stderr_truncated: z.boolean().meta({ description: 'Whether the result has only a part of stderr.' }),
  stdout_ref: z.string().nullable().meta({
    description: 'Name of the stored full stdout. Null if the result has all of it, or if storing failed.',
    example: 'demo/exe_01a1fa08335671eda83cd82154726441/1/stdout',
  }),
  stderr_ref: z.string().nullable().meta({
    description: 'Name of the stored full stderr. Null if the result has all of it, or if storing failed.',
    example: 'demo/exe_01a1fa08335671eda83cd82154726441/1/stderr',
  }),
  redaction_count: z.int().min(0).meta({
    description: 'Number of secrets that were replaced in the output.',
    example: 0,
  }),
  peak_memory_mb: z.number().min(0).nullable().meta({
    description: 'Highest memory use, MiB. Null if not measured.',
    example: 4.4,
  }),
  cpu_ms: z.number().min(0).nullable().meta({
    description: 'CPU time of all processes, milliseconds. Null if not measured.',
    example: 41.5,
  }),
  charged_cpu_ms: z.int().min(0).nullable().meta({
    description: 'CPU time charged, milliseconds. Estimated if cpu_ms is null. Null when not charged.',
    example: 42,
  }),
  charged_gb_seconds: z.number().min(0).nullable().meta({
    description: 'Memory limit × run time, in units of 1,024 MiB for a second. Null when not charged.',
    example: 0.02,
  }),
  cost: z.int().min(0).nullable().meta({
    description: 'Cost in micro-units, by the prices at the end of the attempt. Null when not charged.',
    example: 120,
  }),
  outbound_hosts: z.array(z.string()).meta({
    description:
      'host:port of every connection, in order of first use: at most 256, or egress.max_names if higher.',
    example: ['api.example.com:443'],
  }),
  program_kind: z.string().max(64).nullable().default(null).meta({
    description:
      'What it ran: script/LANGUAGE, command, tests, install or files. Null for rows of an older release.',
    example: 'script/python',
  }),
  executed_code_hash: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .meta({
      description: 'SHA-256 of the program as submitted, in lowercase hex.',
      example: '5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03',
    }),
  trace_id: z.string().nullable().meta({
    description: 'The trace, 32 hex digits. Null if there is none.',
    example: '4bf92f3577b34da6a3ce929d0e0e4736',
  }),
  rerun_of: executionIdSchema.nullable().default(null).meta({
    description: 'The execution that it runs again. Null if it is no rerun.',
    example: 'exe_01a1fa08335671eda83cd82154726441',
  }),
  retention_days: z.int().min(1).max(180).meta({
    description: 'Days after which the row is deleted.',
    example: 30,
  }),
})
export type AuditRow = z.infer<typeof auditRowSchema>
