/**
 * Platform failures come from one table: `code → http, retry, charged, public message, hint`.
 * User code that fails is data (see endings.ts), never one of these. Compare by `code`, which survives
 * the queue and the wire, not by `instanceof`. docs/errors.md is checked against the table both ways.
 */
import { z } from 'zod'

interface ErrorEntry {
  /** HTTP status the API answers with. */
  http: number
  /** `never`: same call fails again; `later`: same call may work; `elsewhere`: another backend may work. */
  retry: 'never' | 'later' | 'elsewhere'
  /** Whether the execution stays charged against the tenant's caps. */
  charged: boolean
  /** What leaves the API when the error brings no message of its own. */
  message: string
  /** What the reader can do. */
  hint: string
}

const entry = (
  http: number,
  retry: ErrorEntry['retry'],
  charged: boolean,
  message: string,
  hint: string,
): ErrorEntry => ({
  http,
  retry,
  charged,
  message,
  hint,
})

export const ERRORS = {
  invalid_request: entry(
    400,
    'never',
    false,
    'The request is not valid.',
    'Fix the fields named in details.problems.',
  ),
  unauthenticated: entry(
    401,
    'never',
    false,
    'No valid API key came with the request.',
    'Send Authorization: Bearer cfd_….',
  ),
  forbidden: entry(
    403,
    'never',
    false,
    'The API key may not do this.',
    'Use a key of this tenant, or an admin key.',
  ),
  not_found: entry(
    404,
    'never',
    false,
    'There is no such thing.',
    'Check the id; results are kept for the retention time of the tenant.',
  ),
  session_not_found: entry(
    404,
    'never',
    false,
    'The session does not exist (any more).',
    'Begin a new one: send the request without session.must_exist, or with another session.key.',
  ),
  method_not_allowed: entry(
    405,
    'never',
    false,
    'This path does not take that method.',
    'See /openapi.json.',
  ),
  idempotency_conflict: entry(
    409,
    'never',
    false,
    'The idempotency key was used with another body.',
    'Use a new key, or send the same body.',
  ),
  conflict: entry(
    409,
    'never',
    false,
    'The current state does not allow this.',
    'Read the current state and decide again.',
  ),
  request_timeout: entry(
    408,
    'later',
    false,
    'The request did not arrive in time.',
    'Send it again, over a line that carries it.',
  ),
  payload_too_large: entry(
    413,
    'never',
    false,
    'The request body is too large.',
    'Send less, or put the data in files below the bounds.',
  ),
  unsupported_media_type: entry(
    415,
    'never',
    false,
    'The body is not JSON.',
    'Send Content-Type: application/json.',
  ),
  range_not_satisfiable: entry(
    416,
    'never',
    false,
    'The byte range lies outside of the output.',
    'Ask for bytes below the total in Content-Range.',
  ),
  queue_full: entry(
    429,
    'later',
    false,
    'The tenant has too many executions waiting.',
    'Wait for some to end, or have max_queued raised.',
  ),
  rate_limited: entry(
    429,
    'later',
    false,
    'This comes too often.',
    'Wait for the seconds that Retry-After says.',
  ),
  queue_unavailable: entry(
    503,
    'later',
    false,
    'The queue (Redis) does not answer.',
    'Check REDIS_URL and the server; nothing was accepted.',
  ),
  store_unavailable: entry(
    503,
    'later',
    false,
    'The store (Postgres) does not answer.',
    'Check DATABASE_URL and the server.',
  ),
  wait_timeout: entry(
    504,
    'later',
    true,
    'The execution did not end within the wait.',
    'Ask again with its execution_id.',
  ),
  busy: entry(
    503,
    'later',
    false,
    'This process is at its bound.',
    'Ask again in a moment, or send the request to another process.',
  ),
  shutting_down: entry(
    503,
    'later',
    false,
    'This process is draining.',
    'Send the request to another process.',
  ),
  fenced: entry(
    409,
    'never',
    true,
    'Another worker owns this attempt now.',
    'Nothing to do: the other worker ends it.',
  ),
  backend_unknown: entry(400, 'never', false, 'There is no backend of that name.', 'See GET /v1/backends.'),
  backend_unavailable: entry(
    503,
    'elsewhere',
    false,
    'The backend cannot run here.',
    'Run cofferdam doctor for the reason.',
  ),
  capability_missing: entry(
    422,
    'elsewhere',
    false,
    'The backend cannot do what was asked.',
    'Choose another backend or drop the option.',
  ),
  isolation_unavailable: entry(
    503,
    'later',
    false,
    'No backend on this worker is isolated strongly enough.',
    'Run cofferdam doctor; install Docker, bubblewrap or gVisor.',
  ),
  sandbox_open_failed: entry(
    503,
    'elsewhere',
    false,
    'The sandbox could not be opened.',
    'See the worker log; the attempt was not charged.',
  ),
  sandbox_lost: entry(
    500,
    'never',
    true,
    'The sandbox died while the program ran.',
    'Run again if the program is idempotent.',
  ),
  protocol_violation: entry(
    500,
    'never',
    true,
    'The guest agent broke the frame protocol.',
    'Treat the program as hostile.',
  ),
  config_invalid: entry(
    500,
    'never',
    false,
    'The configuration is not valid.',
    'Fix the variables or keys named in the message.',
  ),
  interpreter_not_ready: entry(
    503,
    'elsewhere',
    false,
    'The backend has no place of the tenant’s own yet.',
    'Run cofferdam provision agentcore --tenant ID and look at its state; try again in 30 s.',
  ),
  internal: entry(500, 'later', false, 'Something failed on our side.', 'Report the trace_id.'),
} as const satisfies Record<string, ErrorEntry>

export type ErrorCode = keyof typeof ERRORS

/** Whether the table has `code`, which another process or release said. */
export const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(ERRORS, code)

/** The one error type of the platform. `message` is public; put secrets and internals in `cause` or `details`. */
export class CofferdamError extends Error {
  readonly code: ErrorCode
  readonly details: Record<string, unknown>

  constructor(
    code: ErrorCode,
    message?: string,
    options: { details?: Record<string, unknown>; cause?: unknown } = {},
  ) {
    super(message ?? ERRORS[code].message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'CofferdamError'
    this.code = code
    this.details = options.details ?? {}
  }

  get entry(): ErrorEntry {
    return ERRORS[this.code]
  }
}

/** True for our own errors, also when they come from another copy of this module. */
export function isCofferdamError(error: unknown): error is CofferdamError {
  return (
    error instanceof Error &&
    error.name === 'CofferdamError' &&
    'code' in error &&
    isErrorCode(String(error.code))
  )
}

/** The one error shape on the wire. */
export const errorBodySchema = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    hint: z.string(),
    retry: z.enum(['never', 'later', 'elsewhere']),
    details: z.record(z.string(), z.unknown()).optional(),
    trace_id: z.string().optional(),
  }),
})
export type ErrorBody = z.infer<typeof errorBodySchema>

/** The wire form of any thrown thing; foreign errors become `internal` and do not leak their message. */
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
