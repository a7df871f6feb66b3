/** Further attempts of an execution, and the files that one attempt leaves to the next. */
import { z } from 'zod'
import { BOUNDS } from './limits.ts'

/** Endings after which a request may ask for another attempt. */
export const RETRY_ENDINGS = [
  'worker_lost',
  'sandbox_lost',
  'provisioning',
  'error',
  'crashed',
  'soft_timeout',
  'hard_timeout',
  'oom',
] as const

export const retrySchema = z.strictObject({
  max_attempts: z.int().min(1).max(10).meta({
    description: 'The most attempts in all, the first one included. Each is charged and audited.',
    example: 3,
  }),
  on: z
    .array(z.enum(RETRY_ENDINGS))
    .min(1)
    .max(RETRY_ENDINGS.length)
    .meta({
      description:
        'Endings after which it is attempted again. worker_lost, sandbox_lost and provisioning are ' +
        'failures of the platform: name them if the program has no effects outside the sandbox. Name the ' +
        'others if the program can resume.',
      example: ['worker_lost', 'sandbox_lost'],
    }),
})

export const checkpointSchema = z.strictObject({
  globs: z
    .array(z.string().min(1).max(BOUNDS.pathLength))
    .min(1)
    .max(BOUNDS.artifactGlobs)
    .default(['checkpoint/**'])
    .meta({
      description: `Files that are kept, at most ${BOUNDS.checkpointFiles} files and 16 MiB in all.`,
      example: ['checkpoint/**'],
    }),
  every_ms: z.int().min(1000).max(3_600_000).optional().meta({
    description:
      'Interval of saves while the program runs, milliseconds. Default: saved only at the end of an attempt.',
    example: 60_000,
  }),
})
