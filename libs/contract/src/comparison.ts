/** The results of two executions, side by side. */
import { z } from 'zod'
import { auditRowSchema } from './audit-row.ts'
import { executionIdSchema } from './ids.ts'
import { resultSchema } from './result.ts'

/** What a comparison finds different. Figures such as durations always differ, so they are not in here. */
export const DIFFERENCES = [
  'program',
  'ending',
  'exit_code',
  'signal',
  'stdout',
  'stderr',
  'value',
  'artifacts',
  'backend',
] as const
export type Difference = (typeof DIFFERENCES)[number]

export const DIFF_BOUNDS = {
  /** Lines of one diff: not more than a person reads. */
  lines: 400,
  /** Characters of one line. */
  lineLength: 500,
  /** Artifacts that are listed. */
  artifacts: 100,
} as const

export const textDiffSchema = z.strictObject({
  same: z.boolean().meta({ description: 'Whether the two texts are equal.' }),
  added: z.int().min(0).meta({ description: 'Lines that only the second has.', example: 1 }),
  removed: z.int().min(0).meta({ description: 'Lines that only the first has.', example: 1 }),
  exact: z.boolean().meta({
    description:
      'False if the texts are too different to find every common line. The counts are then too high.',
  }),
  lines: z
    .array(
      z.strictObject({
        kind: z.enum(['same', 'removed', 'added', 'skipped']).meta({
          description: 'removed: only in the first. added: only in the second. skipped: lines left out here.',
        }),
        text: z.string().meta({
          description:
            `At most ${DIFF_BOUNDS.lineLength} characters of the line, ` + 'or how many lines are skipped.',
          example: 'total 42',
        }),
      }),
    )
    .max(DIFF_BOUNDS.lines + 1)
    .meta({
      description: `The changed lines with three lines around them, at most ${DIFF_BOUNDS.lines}.`,
    }),
})
export type TextDiff = z.infer<typeof textDiffSchema>

const { ending, exit_code, signal, backend, isolation, duration_ms, queue_ms, usage, attempt } =
  resultSchema.shape

export const comparedSideSchema = z.strictObject({
  execution_id: executionIdSchema.meta({ description: 'The execution.' }),
  attempt,
  rerun_of: auditRowSchema.shape.rerun_of,
  started_at: auditRowSchema.shape.started_at,
  ending,
  exit_code,
  signal,
  backend,
  isolation,
  duration_ms,
  queue_ms,
  usage,
  stdout_bytes: resultSchema.shape.stdout_bytes,
  stderr_bytes: resultSchema.shape.stderr_bytes,
  executed_code_hash: auditRowSchema.shape.executed_code_hash,
  error_message: resultSchema.shape.error_message,
  value: resultSchema.shape.value,
})
export type ComparedSide = z.infer<typeof comparedSideSchema>

export const comparisonSchema = z.strictObject({
  first: comparedSideSchema.meta({
    description: 'The execution that `with` names, or else the one that the second runs again.',
  }),
  second: comparedSideSchema.meta({ description: 'The execution of the path.' }),
  differences: z.array(z.enum(DIFFERENCES)).meta({
    description: 'What differs, besides figures such as durations and usage. Empty if the results are alike.',
    example: ['ending', 'stdout'],
  }),
  stdout: textDiffSchema.meta({ description: 'The stdout in both results.' }),
  stderr: textDiffSchema.meta({ description: 'The stderr in both results.' }),
  artifacts: z
    .array(
      z.strictObject({
        path: z.string().meta({ description: 'The artifact.', example: 'out/report.csv' }),
        change: z.enum(['added', 'removed', 'changed']).meta({
          description: 'added: only the second has it. removed: only the first. changed: other content.',
        }),
      }),
    )
    .max(DIFF_BOUNDS.artifacts)
    .meta({ description: `Artifacts that differ, at most ${DIFF_BOUNDS.artifacts}.` }),
})
export type Comparison = z.infer<typeof comparisonSchema>
