/** Errors as Anthropic's API sends them, and the check of a request's parts. */
import type { ErrorType } from '@anthropic-ai/sdk/resources/shared'
import type { z } from 'zod'

/** The types that the SDK knows, and that of a 413, which only the errors page has (docs.claude.com). */
type WireErrorType = ErrorType | 'request_too_large'

/**
 * An answer with a status of 400 or more. `extra` is sent beside `type` and `message` in the body's `error`.
 */
export class WireError extends Error {
  readonly status: number
  readonly type: WireErrorType
  readonly extra: Readonly<Record<string, unknown>>

  constructor(status: number, type: WireErrorType, message: string, extra: Record<string, unknown> = {}) {
    super(message)
    this.status = status
    this.type = type
    this.extra = extra
  }
}

export const badRequest = (message: string): WireError => new WireError(400, 'invalid_request_error', message)
export const unauthenticated = (message: string): WireError =>
  new WireError(401, 'authentication_error', message)
export const forbidden = (message: string): WireError => new WireError(403, 'permission_error', message)
export const notFound = (what: string): WireError =>
  new WireError(404, 'not_found_error', `${what} not found`)
export const conflict = (message: string): WireError => new WireError(409, 'conflict_error', message)

/** The type that Anthropic's errors page gives to a status. Used for injected failures. */
export function typeOfStatus(status: number): WireErrorType {
  if (status === 529) return 'overloaded_error'
  if (status === 504) return 'timeout_error'
  if (status >= 500) return 'api_error'
  const known: Record<number, WireErrorType> = {
    401: 'authentication_error',
    402: 'billing_error',
    403: 'permission_error',
    404: 'not_found_error',
    409: 'conflict_error',
    413: 'request_too_large',
    429: 'rate_limit_error',
  }
  return known[status] ?? 'invalid_request_error'
}

/** The body of an error: `{type, error: {type, message, details?}, request_id}` (SDK core/error.ts). */
export const errorBody = (error: WireError, requestId: string): object => ({
  type: 'error',
  error: { type: error.type, message: error.message, ...error.extra },
  request_id: requestId,
})

/** Parses a part of a request. Throws a 400 that names the first problem. */
export function checked<T extends z.ZodType>(schema: T, input: unknown): z.output<T> {
  const outcome = schema.safeParse(input)
  if (outcome.success) return outcome.data
  const [issue] = outcome.error.issues
  const at = issue === undefined || issue.path.length === 0 ? '' : `${issue.path.map(String).join('.')}: `
  throw badRequest(`${at}${issue?.message ?? 'not valid'}`.slice(0, 500))
}
