/** The one error shape on the wire. The errors themselves are in error-table.ts. */
import { z } from 'zod'
import { CofferdamError, ERRORS, isCofferdamError } from './error-table.ts'

export * from './error-table.ts'

/** The one error shape on the wire. */
export const errorBodySchema = z.object({
  error: z
    .object({
      code: z.string().meta({
        description: 'Stable word for the failure (docs/errors.md). Programs should compare this one.',
        example: 'invalid_request',
      }),
      message: z.string().meta({
        description: 'What happened.',
        example: 'body is not valid: agent_id: expected 1-128 letters, got nothing',
      }),
      hint: z.string().meta({
        description: 'What to do about it.',
        example: 'Correct the fields that details.problems lists.',
      }),
      retry: z.enum(['never', 'later', 'elsewhere']).meta({
        description:
          'Whether to send the same request again: never, later, or to another backend or process ' +
          '(elsewhere).',
      }),
      details: z
        .record(z.string(), z.unknown())
        .optional()
        .meta({
          description: 'Facts for programs. Each code has its own. Absent if there are none.',
          example: { problems: [{ field: 'agent_id', message: 'expected 1-128 letters, got nothing' }] },
        }),
      trace_id: z.string().optional().meta({
        description: 'The trace of the request, 32 hex digits, to tell an operator.',
        example: '4bf92f3577b34da6a3ce929d0e0e4736',
      }),
    })
    .meta({ description: 'The failure.' }),
})
export type ErrorBody = z.infer<typeof errorBodySchema>

/** The wire form of any error. Foreign errors become `internal` and do not leak their message. */
export function toErrorBody(error: unknown, traceId?: string): { http: number; body: ErrorBody } {
  const ours = isCofferdamError(error) ? error : new CofferdamError('internal', undefined, { cause: error })
  const { http, hint, retry } = ERRORS[ours.code]
  return {
    http,
    body: {
      error: {
        code: ours.code,
        message: ours.message,
        hint,
        retry,
        ...(Object.keys(ours.details).length > 0 ? { details: ours.details } : {}),
        ...(traceId === undefined ? {} : { trace_id: traceId }),
      },
    },
  }
}
