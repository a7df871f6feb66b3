/** The result of an execution: what a tool returns, never an exception. Byte counts are raw, before redaction and truncation. */
import { z } from 'zod'
import { capDimensionSchema, capsUseSchema } from './caps.ts'
import { endingSchema, errorClassSchema, exitStatusSchema } from './endings.ts'
import { executionIdSchema } from './ids.ts'
import { isolationSchema } from './isolation.ts'
import { BOUNDS } from './limits.ts'
import { PACKAGE_MANAGERS, TEST_FRAMEWORKS } from './program.ts'
import { workspaceReportSchema } from './workspace.ts'

export const usageSchema = z.strictObject({
  /** User + system CPU time of the whole process tree. */
  cpu_ms: z.number().min(0).nullable(),
  peak_memory_bytes: z.int().min(0).nullable(),
  /** Bytes that reads and writes of all processes moved, files and pipes alike. */
  read_bytes: z.int().min(0).nullable(),
  write_bytes: z.int().min(0).nullable(),
  /** Most processes and threads at once. */
  pids_peak: z.int().min(0).nullable(),
  /** Bytes of the sandbox's own disk in use at the end. */
  disk_bytes: z.int().min(0).nullable(),
  /** From the program's start to its end. */
  wall_ms: z.number().min(0),
})
/** What the attempt used; null where the backend cannot measure it. */
export type Usage = z.infer<typeof usageSchema>

/** Usage of which only the wall time is known. */
export const unmeasuredUsage = (wallMs: number): Usage => ({
  cpu_ms: null,
  peak_memory_bytes: null,
  read_bytes: null,
  write_bytes: null,
  pids_peak: null,
  disk_bytes: null,
  wall_ms: wallMs,
})

/** Usage as results show it: with what the attempt was charged, when it was. */
export const resultUsageSchema = usageSchema.extend({
  /** CPU milliseconds charged: the measured ones, or run time × `cpus` where `cpu_ms` is null. */
  charged_cpu_ms: z.int().min(0).optional(),
  /** Cost in micro-units. */
  cost: z.int().min(0).optional(),
})

export const artifactSchema = z.strictObject({
  path: z.string(),
  size: z.int().min(0),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
})
export type Artifact = z.infer<typeof artifactSchema>

/**
 * Why a file that matched is no artifact. `too_large`, `total_too_large` and `too_many`: it passes
 * `limits.artifact_bytes`, `limits.artifacts_total_bytes` or `limits.artifact_count`. `unsafe_name`: its path
 * is longer than a request may name, or is not UTF-8. `unreadable`: the sandbox did not give it.
 * `not_stored`: our store did not take it. `out_of_time`: the collection ended before it.
 */
export const ARTIFACT_OMISSIONS = [
  'too_large',
  'total_too_large',
  'too_many',
  'unsafe_name',
  'unreadable',
  'not_stored',
  'out_of_time',
] as const

/** A file that matched `artifacts` and was left out. */
export const omittedArtifactSchema = z.strictObject({
  /** At most `BOUNDS.pathLength` characters of it. */
  path: z.string().max(BOUNDS.pathLength),
  /** Bytes, as the sandbox said. */
  size: z.int().min(0),
  reason: z.enum(ARTIFACT_OMISSIONS),
})
export type OmittedArtifact = z.infer<typeof omittedArtifactSchema>

/** What a test run found. Counts are of single tests; `errored` are those that could not be run or collected. */
export const testReportSchema = z.strictObject({
  framework: z.enum(TEST_FRAMEWORKS),
  /** The command that ran, as a shell line. */
  command: z.string(),
  total: z.int().min(0),
  passed: z.int().min(0),
  failed: z.int().min(0),
  errored: z.int().min(0),
  skipped: z.int().min(0),
  duration_ms: z.number().min(0).nullable(),
  /** Every test that failed or errored, at most 500; `failures_omitted` counts the rest. */
  failures: z
    .array(
      z.strictObject({
        name: z.string().max(1024),
        file: z.string().max(BOUNDS.pathLength).nullable(),
        line: z.int().min(1).nullable(),
        message: z.string().max(8192),
      }),
    )
    .max(500),
  failures_omitted: z.int().min(0),
  /**
   * False when the framework's own report was missing or broken (the counts then come from its printed summary), and when the run was stopped
   * before its end.
   */
  complete: z.boolean(),
})
export type TestReport = z.infer<typeof testReportSchema>

/** What an install put in place. */
export const installReportSchema = z.strictObject({
  manager: z.enum(PACKAGE_MANAGERS),
  command: z.string(),
  /** Every package fetched through the package proxy, at most 2,000. */
  packages: z.array(z.strictObject({ name: z.string().max(256), version: z.string().max(128) })).max(2000),
  /** Packages that the tenant's policy refused, with the reason. */
  refused: z.array(z.strictObject({ name: z.string().max(256), reason: z.string().max(512) })).max(100),
})
export type InstallReport = z.infer<typeof installReportSchema>

/**
 * What a program can find of the interpreter that a session keeps; see `interpreter` of `sessionTurnSchema`.
 */
export const INTERPRETER_FINDINGS = ['kept', 'restarted', 'none'] as const
export type InterpreterFinding = (typeof INTERPRETER_FINDINGS)[number]

/** What an execution found of its session. */
export const sessionTurnSchema = z.strictObject({
  /** Of the session's sandbox: another id means another sandbox. */
  id: z.string(),
  /** True when nothing of an earlier execution was there. */
  fresh: z.boolean(),
  /**
   * `kept`: the program ran in the interpreter of earlier ones, with their names. `restarted`: that
   * interpreter has ended since (it exited, or was killed for memory), so the program ran in a new one,
   * without these names. `none`: there was none to go on with: the first program of its language, one that is
   * no script, another scope than `interpreter`, or no word of it before a forced stop.
   */
  interpreter: z.enum(INTERPRETER_FINDINGS),
})
export type SessionTurn = z.infer<typeof sessionTurnSchema>

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
  usage: resultUsageSchema.nullable(),
  artifacts: z.array(artifactSchema),
  /** Files that matched and were left out, at most 100; absent when there were none. */
  artifacts_omitted: z.array(omittedArtifactSchema).max(BOUNDS.artifactsOmitted).optional(),
  /**
   * True when more files may match than these two lists name: the search or the collection ended early. Else
   * absent.
   */
  artifacts_incomplete: z.boolean().optional(),
  /**
   * Variables of the request's `env` that the program did not get, because they change how programs start;
   * absent when there were none.
   */
  env_dropped: z.array(z.string()).max(BOUNDS.envCount).optional(),
  tests: testReportSchema.optional(),
  install: installReportSchema.optional(),
  /** Absent outside of sessions, and where no sandbox was opened. */
  session: sessionTurnSchema.optional(),
  /**
   * What the vendor's own logs call the sandbox: a session id, `claim/pod`, …; absent where no sandbox of a
   * vendor was opened.
   */
  vendor_ref: z.string().max(BOUNDS.vendorRefLength).optional(),
  /** What became of the files that it changed; absent without a workspace, and where nothing ran. */
  workspace: workspaceReportSchema.optional(),
  /** Null where no sandbox was opened. */
  backend: z.string().nullable(),
  isolation: isolationSchema.nullable(),
  trace_id: z.string().nullable(),
  caps: capsUseSchema.nullable(),
  error: errorClassSchema.optional(),
  error_message: z.string().optional(),
  /** Stable word for why, e.g. `tenant_sandbox_disabled`, `worker_lost`. */
  reason: z.string().optional(),
  dimension: capDimensionSchema.optional(),
  resets_at: z.iso.datetime().optional(),
  kill_switch: z.boolean().optional(),
})
export type ExecutionResult = z.infer<typeof resultSchema>

export const EXECUTION_STATUSES = ['delayed', 'queued', 'running', 'ended'] as const

export const progressSchema = z.strictObject({
  fraction: z.number().min(0).max(1),
  message: z.string().max(BOUNDS.progressMessageLength),
  at: z.iso.datetime(),
})

export const CALLBACK_STATES = ['waiting', 'sending', 'delivered', 'failed'] as const
export const callbackStatusSchema = z.strictObject({
  /** waiting: for the execution's end. sending: until it is taken, for a day. */
  state: z.enum(CALLBACK_STATES),
  attempts: z.int().min(0),
  /** HTTP status of the last answer; null when there was none. */
  last_status: z.int().nullable(),
  last_error: z.string().max(500).nullable(),
})
export type CallbackStatus = z.infer<typeof callbackStatusSchema>

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
  /** What the program last said of itself; absent when it said nothing, and an hour after the end. */
  progress: progressSchema.optional(),
  /** What became of `callback_url`; absent without one, and seven days after the end. */
  callback: callbackStatusSchema.optional(),
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
