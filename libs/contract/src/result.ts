/** The result of an execution. Byte counts are raw: before redaction and truncation. */
import { z } from 'zod'
import { artifactSchema, omittedArtifactSchema } from './artifact.ts'
import { capDimensionSchema, capsUseSchema } from './caps.ts'
import { endingSchema, errorClassSchema, exitStatusSchema } from './endings.ts'
import { executionIdSchema } from './ids.ts'
import { isolationSchema } from './isolation.ts'
import { BOUNDS } from './limits.ts'
import { timeSchema } from './name.ts'
import { installReportSchema, testReportSchema } from './task-report.ts'
import { limitsInForceSchema, resultUsageSchema } from './usage.ts'
import { workspaceReportSchema } from './workspace.ts'

/** See `interpreter` of `sessionTurnSchema`. */
export const INTERPRETER_FINDINGS = ['kept', 'restarted', 'none'] as const
export type InterpreterFinding = (typeof INTERPRETER_FINDINGS)[number]

/** The session of an execution, as the execution found it. */
export const sessionTurnSchema = z.strictObject({
  id: z.string().meta({
    description: 'Identifies the session’s sandbox: a new ID means a new sandbox.',
    example: 'ses_01a1fa08335671eda83cd82154726441',
  }),
  fresh: z.boolean().meta({ description: 'True when no state of an earlier execution was there.' }),
  interpreter: z.enum(INTERPRETER_FINDINGS).meta({
    description:
      'kept: the program ran in the interpreter of earlier executions, with their variables. restarted: ' +
      'that interpreter had exited or was killed for memory, so the program ran in a new one. none: there ' +
      'was no earlier interpreter. This holds for the first script of a language, for programs that are ' +
      'not scripts, for the scopes none and files, and if the program was killed before the interpreter ' +
      'was known.',
  }),
})
export type SessionTurn = z.infer<typeof sessionTurnSchema>

const rawBytes = z.int().min(0)

export const resultSchema = z.strictObject({
  ok: z.boolean().meta({ description: 'True if the ending is ok: the program exited with status 0.' }),
  execution_id: executionIdSchema.meta({ description: 'The execution.' }),
  attempt: z.int().min(1).meta({ description: 'Number of the attempt, from 1.', example: 1 }),
  exit_status: exitStatusSchema.meta({ description: 'Coarse class of the ending.' }),
  ending: endingSchema.meta({ description: 'How the attempt ended, exactly.' }),
  exit_code: z.int().nullable().meta({
    description: 'Exit status of the program. Null if a signal killed it or nothing ran.',
    example: 0,
  }),
  signal: z.string().nullable().meta({
    description: 'Signal that killed the program. Null if none did.',
    example: 'SIGKILL',
  }),
  stdout: z.string().meta({
    description: 'Head of the standard output, redacted, at most limits.stdout_bytes.',
    example: '2\n',
  }),
  stderr: z.string().meta({
    description: 'Tail of the standard error, redacted, at most limits.stderr_bytes.',
    example: '',
  }),
  stdout_bytes: rawBytes.meta({ description: 'Bytes that the program wrote to stdout.', example: 2 }),
  stderr_bytes: rawBytes.meta({ description: 'Bytes that the program wrote to stderr.', example: 0 }),
  stdout_truncated: z.boolean().meta({ description: 'Whether stdout is shorter than what was written.' }),
  stderr_truncated: z.boolean().meta({ description: 'Whether stderr is shorter than what was written.' }),
  value: z
    .unknown()
    .optional()
    .meta({
      description:
        'Value of the script as JSON: its last expression (python), module.exports or the default export ' +
        '(others). Absent if it has none.',
      example: 2,
    }),
  duration_ms: z.number().min(0).meta({
    description: 'From when a worker took the execution until the attempt ended, milliseconds.',
    example: 82,
  }),
  queue_ms: z.number().min(0).meta({
    description: 'From the enqueue until a worker took the execution, milliseconds.',
    example: 16,
  }),
  usage: resultUsageSchema.nullable().meta({ description: 'What the program used. Null if nothing ran.' }),
  limits: limitsInForceSchema.optional().meta({
    description:
      'The limits that held, to compare usage with. Absent if no program ran, or if an older release ' +
      'wrote the result.',
  }),
  artifacts: z.array(artifactSchema).meta({ description: 'Files that were returned.' }),
  artifacts_omitted: z.array(omittedArtifactSchema).max(BOUNDS.artifactsOmitted).optional().meta({
    description: 'Matching files that are not artifacts, at most 100. Absent when there are none.',
  }),
  artifacts_incomplete: z.boolean().optional().meta({
    description:
      'True when collecting ended early, so more files may match than the two lists name. Otherwise absent.',
  }),
  collected_from: z.string().max(BOUNDS.pathLength).optional().meta({
    description:
      'The folder that collect stored. Paths of artifacts are relative to it. Absent for other programs.',
    example: '.session/outputs',
  }),
  env_dropped: z
    .array(z.string())
    .max(BOUNDS.envCount)
    .optional()
    .meta({
      description:
        'Variables of env that were not set, because they change how programs start. Absent when empty.',
      example: ['LD_PRELOAD'],
    }),
  tests: testReportSchema.optional().meta({ description: 'Report of a test run. Otherwise absent.' }),
  install: installReportSchema.optional().meta({ description: 'Report of an install. Otherwise absent.' }),
  session: sessionTurnSchema.optional().meta({
    description: 'The session. Absent outside of sessions, or when no sandbox was opened.',
  }),
  vendor_ref: z.string().max(BOUNDS.vendorRefLength).optional().meta({
    description: 'The sandbox’s name in the vendor’s logs. Absent when no sandbox of a vendor was opened.',
    example: 'sandbox-claim-7/pod-7',
  }),
  workspace: workspaceReportSchema.optional().meta({
    description: 'What happened to changed workspace files. Absent without a workspace, or when nothing ran.',
  }),
  backend: z.string().nullable().meta({
    description: 'The backend that ran it. Null when no sandbox was opened.',
    example: 'docker',
  }),
  isolation: isolationSchema.nullable().meta({
    description: 'How strongly the sandbox was isolated. Null when no sandbox was opened.',
  }),
  trace_id: z.string().nullable().meta({
    description: 'The trace, 32 hex digits. Null if there is none.',
    example: '4bf92f3577b34da6a3ce929d0e0e4736',
  }),
  caps: capsUseSchema.nullable().meta({
    description: 'Use of the caps, this attempt included. Null when it did not reach admission.',
  }),
  error: errorClassSchema.optional().meta({
    description: 'Error class that an agent sees. Absent if the ending is ok.',
  }),
  error_message: z.string().optional().meta({
    description: 'What went wrong, for humans and agents, redacted. Absent if the ending is ok.',
    example: 'The program exited with code 1: ValueError: no such colour (prices.py:3)',
  }),
  reason: z.string().optional().meta({
    description: 'Stable word for the cause. Absent if there is none.',
    example: 'tenant_sandbox_disabled',
  }),
  dimension: capDimensionSchema.optional().meta({
    description: 'The cap that refused the attempt. Otherwise absent.',
  }),
  resets_at: timeSchema.optional().meta({ description: 'When that cap resets. Otherwise absent.' }),
  kill_switch: z.boolean().optional().meta({
    description: 'True if that cap is 0, so that it never lets anything through. Otherwise absent.',
  }),
})
export type ExecutionResult = z.infer<typeof resultSchema>
