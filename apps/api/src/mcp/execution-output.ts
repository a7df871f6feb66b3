/** The structured content of tools that run or show an execution. */
import {
  ERRORS,
  EXECUTION_STATUSES,
  endingSchema,
  errorClassSchema,
  isErrorCode,
  type Accepted,
  type ExecutionResult,
  type ExecutionState,
} from '@cofferdam/contract'
import { z } from 'zod'
import { artifactUri } from './resource-uris.ts'

const count = z.int().min(0)

/** Loose, so that a client that cached the list of tools accepts a later release's results. */
export const executionOutput = z.looseObject({
  execution_id: z.string(),
  status: z
    .enum(EXECUTION_STATUSES)
    .describe('If it is not "ended", call get_execution with the execution_id for the result.'),
  position: z.int().nullable().optional().describe('Executions that start before it, while it is queued.'),
  eta_ms: z.int().nullable().optional(),
  progress: z.looseObject({ fraction: z.number(), message: z.string() }).optional(),
  ok: z.boolean().optional().describe('Whether the program ended normally. Absent until it ended.'),
  ending: endingSchema.optional(),
  exit_code: z.int().nullable().optional(),
  stdout: z.string().optional(),
  stderr: z.string().optional(),
  stdout_bytes: count.optional(),
  stderr_bytes: count.optional(),
  stdout_truncated: z.boolean().optional(),
  stderr_truncated: z.boolean().optional(),
  stdout_from: count.optional().describe('Byte offset of stdout, if stdout_from was asked for.'),
  stdout_next: count.optional().describe('Offset of the next part. Absent at the end.'),
  value: z.unknown().optional().describe('Value of the last expression, as JSON.'),
  duration_ms: z.number().optional(),
  queue_ms: z.number().optional(),
  artifacts: z
    .array(z.looseObject({ path: z.string(), size: count, uri: z.string() }))
    .optional()
    .describe('Collected files. Read one with resources/read and its uri.'),
  session: z
    .looseObject({ id: z.string(), fresh: z.boolean(), interpreter: z.string() })
    .optional()
    .describe('fresh: nothing of an earlier execution was there.'),
  tests: z
    .looseObject({
      passed: count,
      failed: count,
      errored: count,
      skipped: count,
      failures: z.array(z.looseObject({ name: z.string(), message: z.string() })),
      complete: z.boolean().describe('False if the run was stopped early or its report was broken.'),
    })
    .optional(),
  error: errorClassSchema.optional(),
  error_message: z.string().optional(),
  reason: z.string().optional(),
  dimension: z.string().optional().describe('The cap that was reached.'),
  resets_at: z.string().optional().describe('When a cap allows the next execution.'),
  hint: z.string().optional(),
})
export type ExecutionOutput = z.output<typeof executionOutput>

/** The fields of an ended execution that an agent can use. */
export function endedOutput(result: ExecutionResult): ExecutionOutput {
  const { execution_id, ok, ending, exit_code, duration_ms, queue_ms, value } = result
  const hint = hintOf(result)
  return {
    execution_id,
    status: 'ended',
    ok,
    ending,
    exit_code,
    stdout: result.stdout,
    stderr: result.stderr,
    stdout_bytes: result.stdout_bytes,
    stderr_bytes: result.stderr_bytes,
    stdout_truncated: result.stdout_truncated,
    stderr_truncated: result.stderr_truncated,
    ...(value === undefined ? {} : { value }),
    duration_ms,
    queue_ms,
    artifacts: result.artifacts.map(({ path, size }) => ({
      path,
      size,
      uri: artifactUri(execution_id, path),
    })),
    ...(result.session === undefined ? {} : { session: result.session }),
    ...(result.tests === undefined ? {} : { tests: result.tests }),
    ...(result.error === undefined ? {} : { error: result.error }),
    ...(result.error_message === undefined ? {} : { error_message: result.error_message }),
    ...(result.reason === undefined ? {} : { reason: result.reason }),
    ...(result.dimension === undefined ? {} : { dimension: result.dimension }),
    ...(result.resets_at === undefined ? {} : { resets_at: result.resets_at }),
    ...(hint === undefined ? {} : { hint }),
  }
}

/** An execution that has not ended, or whose result is not kept any more. */
export function liveOutput(state: Accepted | ExecutionState): ExecutionOutput {
  const { execution_id, status, position, eta_ms } = state
  const progress = 'progress' in state ? state.progress : undefined
  return { execution_id, status, position, eta_ms, ...(progress === undefined ? {} : { progress }) }
}

function hintOf({ reason, resets_at }: ExecutionResult): string | undefined {
  if (resets_at !== undefined) return `Do not repeat the call before ${resets_at}.`
  return reason !== undefined && isErrorCode(reason) ? ERRORS[reason].hint : undefined
}
