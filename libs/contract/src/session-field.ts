/** The session that a request names. */
import { z } from 'zod'
import { sessionKeySchema } from './session-key.ts'

/**
 * What one execution of a session leaves to the next. Each scope keeps more than the one before: nothing, its
 * files, the interpreter (REPL), then background processes and every file.
 */
export const SESSION_SCOPES = ['none', 'files', 'interpreter', 'processes'] as const
export type SessionScope = (typeof SESSION_SCOPES)[number]

export const sessionFieldSchema = z.strictObject({
  key: sessionKeySchema.meta({
    description: 'Names the session within its tenant and backend. The first use creates it.',
    example: 'notebook',
  }),
  scope: z
    .enum(SESSION_SCOPES)
    .default('files')
    .meta({
      description:
        'What the next execution of the session finds: files (default), also the interpreter, also ' +
        'background processes, or nothing (none). Everything else is wiped.',
    }),
  idle_ms: z
    .int()
    .min(1000)
    .max(3_600_000)
    .optional()
    .meta({
      description:
        'The session ends after it was idle for this long, milliseconds. Default: the worker’s ' +
        'warm.cells.idle_ms, 300,000.',
      example: 600_000,
    }),
  must_exist: z.boolean().optional().meta({
    description:
      'Refuse with session_not_found, uncharged, instead of starting a new session. Default: false.',
  }),
})
