/** The result of an execution. Byte counts are raw: before redaction and truncation. */
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
  /** Bytes that all processes read and wrote, from files and pipes alike. */
  read_bytes: z.int().min(0).nullable(),
  write_bytes: z.int().min(0).nullable(),
  /** Highest number of processes and threads at one time. */
  pids_peak: z.int().min(0).nullable(),
  /** Bytes of the sandbox's own disk in use at the end. */
  disk_bytes: z.int().min(0).nullable(),
  /** From the program's start to its end. */
  wall_ms: z.number().min(0),
})
/** A field is null if the backend cannot measure it. */
export type Usage = z.infer<typeof usageSchema>

/** Usage when only the wall time is known. */
export const unmeasuredUsage = (wallMs: number): Usage => ({
  cpu_ms: null,
  peak_memory_bytes: null,
  read_bytes: null,
  write_bytes: null,
  pids_peak: null,
  disk_bytes: null,
  wall_ms: wallMs,
})

/** Usage in a result. A charged attempt also shows its charge. */
export const resultUsageSchema = usageSchema.extend({
  /** CPU milliseconds charged: as measured, or run time × `cpus` if `cpu_ms` is null. */
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
 * Why a matching file is not an artifact. `too_large`, `total_too_large` and `too_many`: it exceeds
 * `limits.artifact_bytes`, `limits.artifacts_total_bytes` or `limits.artifact_count`. `unsafe_name`: its path
 * is too long or not UTF-8. `unreadable`: the sandbox did not deliver it. `not_stored`: writing it to the
 * store failed. `out_of_time`: collecting ended before it was reached.
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

/** A file that matched `artifacts` and is not an artifact. */
export const omittedArtifactSchema = z.strictObject({
  path: z.string().max(BOUNDS.pathLength),
  /** Bytes, as the sandbox reported. */
  size: z.int().min(0),
  reason: z.enum(ARTIFACT_OMISSIONS),
})
export type OmittedArtifact = z.infer<typeof omittedArtifactSchema>

/** The outcome of a test run. Counts are single tests. `errored` ones could not be run or collected. */
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
  /** Every test that failed or errored, at most 500. `failures_omitted` counts the others. */
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
   * False when the run was stopped early, or when the framework's report was missing or broken. Without a
   * report the counts come from the printed summary.
   */
  complete: z.boolean(),
})
export type TestReport = z.infer<typeof testReportSchema>

export const installReportSchema = z.strictObject({
  manager: z.enum(PACKAGE_MANAGERS),
  command: z.string(),
  /** Every package fetched through the package proxy, at most 2,000. */
  packages: z.array(z.strictObject({ name: z.string().max(256), version: z.string().max(128) })).max(2000),
  /** Packages that the tenant's policy refused, with the reason. */
  refused: z.array(z.strictObject({ name: z.string().max(256), reason: z.string().max(512) })).max(100),
})
export type InstallReport = z.infer<typeof installReportSchema>

/** See `interpreter` of `sessionTurnSchema`. */
export const INTERPRETER_FINDINGS = ['kept', 'restarted', 'none'] as const
export type InterpreterFinding = (typeof INTERPRETER_FINDINGS)[number]

/** The session of an execution, as the execution found it. */
export const sessionTurnSchema = z.strictObject({
  /** Identifies the session's sandbox: a new ID means a new sandbox. */
  id: z.string(),
  /** True when no state of an earlier execution was there. */
  fresh: z.boolean(),
  /**
   * `kept`: the program ran in the interpreter of earlier executions, with their variables. `restarted`: that
   * interpreter had exited or was killed for memory, so the program ran in a new one. `none`: there was no
   * earlier interpreter. This holds for the first script of a language, for programs that are not scripts,
   * for the scopes `none` and `files`, and if the program was killed before the interpreter was known.
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
  /** The script's value as JSON: last expression (python), module.exports or default export (others). */
  value: z.unknown().optional(),
  /** From the take of the execution by a worker until the attempt ended. */
  duration_ms: z.number().min(0),
  /** From enqueue to the take. */
  queue_ms: z.number().min(0),
  usage: resultUsageSchema.nullable(),
  artifacts: z.array(artifactSchema),
  /** Matching files that are not artifacts, at most 100. Absent when there are none. */
  artifacts_omitted: z.array(omittedArtifactSchema).max(BOUNDS.artifactsOmitted).optional(),
  /** True when collecting ended early, so more files may match than the two lists name. Otherwise absent. */
  artifacts_incomplete: z.boolean().optional(),
  /** The folder of a `collect`, to which the paths of its artifacts are relative. Otherwise absent. */
  collected_from: z.string().max(BOUNDS.pathLength).optional(),
  /** Variables of `env` that were not set, because they change how programs start. Absent when empty. */
  env_dropped: z.array(z.string()).max(BOUNDS.envCount).optional(),
  tests: testReportSchema.optional(),
  install: installReportSchema.optional(),
  /** Absent outside of sessions, or when no sandbox was opened. */
  session: sessionTurnSchema.optional(),
  /** The sandbox's name in the vendor's logs. Absent when no sandbox of a vendor was opened. */
  vendor_ref: z.string().max(BOUNDS.vendorRefLength).optional(),
  /** What happened to changed workspace files. Absent without a workspace, or when nothing ran. */
  workspace: workspaceReportSchema.optional(),
  /** Null when no sandbox was opened. */
  backend: z.string().nullable(),
  isolation: isolationSchema.nullable(),
  trace_id: z.string().nullable(),
  caps: capsUseSchema.nullable(),
  error: errorClassSchema.optional(),
  error_message: z.string().optional(),
  /** Stable word for the cause, such as `tenant_sandbox_disabled` or `worker_lost`. */
  reason: z.string().optional(),
  dimension: capDimensionSchema.optional(),
  resets_at: z.iso.datetime().optional(),
  kill_switch: z.boolean().optional(),
})
export type ExecutionResult = z.infer<typeof resultSchema>
