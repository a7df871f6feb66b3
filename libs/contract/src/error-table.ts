/**
 * The table of platform errors: code → HTTP status, retry, charged, public message, hint. Failing user code
 * is data (see endings.ts), never one of these. Compare errors by `code`, which survives the queue and the
 * wire, not by `instanceof`. docs/errors.md is generated from the table. This file imports nothing, not even
 * zod, because the HTTP client imports it.
 */
/** `never`: the same call fails again. `later`: it may work later. `elsewhere`: on another backend. */
export type Retry = 'never' | 'later' | 'elsewhere'

interface ErrorEntry {
  http: number
  retry: Retry
  /** Whether the execution stays charged to the tenant's caps. */
  charged: boolean
  /** Public message of an error that was thrown without a message. */
  message: string
  /** What the caller can do. */
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
    'Correct the fields that details.problems lists.',
  ),
  unauthenticated: entry(
    401,
    'never',
    false,
    'The request has no valid API key.',
    'Send the header Authorization: Bearer cfd_….',
  ),
  forbidden: entry(
    403,
    'never',
    false,
    'The API key does not permit this.',
    'Use a key of this tenant, or an admin key.',
  ),
  not_found: entry(
    404,
    'never',
    false,
    'What you asked for does not exist.',
    'Check the id. Results are deleted after the retention time of the tenant.',
  ),
  session_not_found: entry(
    404,
    'never',
    false,
    'The session does not exist, or has ended.',
    'To start a new one, send the request without session.must_exist, or with another session.key.',
  ),
  method_not_allowed: entry(
    405,
    'never',
    false,
    'This path does not support the method.',
    'See /openapi.json for the methods of each path.',
  ),
  idempotency_conflict: entry(
    409,
    'never',
    false,
    'The idempotency key was already used with a different body.',
    'Use a new key, or send the same body.',
  ),
  conflict: entry(
    409,
    'never',
    false,
    'The current state does not allow this change.',
    'Read the current state, then send a change that fits it.',
  ),
  too_many_workspaces: entry(
    409,
    'never',
    false,
    'The tenant has as many workspaces as it may have, so this one was not created.',
    'Delete workspaces that are no longer needed, or use one that exists.',
  ),
  request_timeout: entry(
    408,
    'later',
    false,
    'The request did not arrive in time.',
    'Send it again over a faster connection.',
  ),
  payload_too_large: entry(
    413,
    'never',
    false,
    'The request body is too large.',
    'Send less data, or move it into files that are within the limits.',
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
    'The byte range is outside of the output.',
    'Ask for bytes below the total that Content-Range names.',
  ),
  queue_full: entry(
    429,
    'later',
    false,
    'The tenant has too many queued executions, so this one was not accepted.',
    'Wait until some have ended, or ask an operator to raise max_queued.',
  ),
  rate_limited: entry(
    429,
    'later',
    false,
    'Too many requests.',
    'Wait for the number of seconds in Retry-After, then try again.',
  ),
  queue_unavailable: entry(
    503,
    'later',
    false,
    'The queue does not answer, so the request was not accepted.',
    'Try again later. Operators: check REDIS_URL and the Redis server.',
  ),
  cell_unavailable: entry(
    503,
    'later',
    false,
    'The cell of the fleet that has this tenant or execution does not answer.',
    'Try again later; tenants of other cells are served. Operators: start the Redis of the cell in ' +
      'details.cell, or name it in COFFERDAM_CELLS.',
  ),
  store_unavailable: entry(
    503,
    'later',
    false,
    'The store does not answer.',
    'Try again later. Operators: check DATABASE_URL and Postgres, and the bucket of COFFERDAM_BLOBS.',
  ),
  stored_data_damaged: entry(
    500,
    'never',
    false,
    'What is stored is not what was written: it was changed, cut or moved.',
    'Run the execution again. Operators: restore the blob that the log names from a backup.',
  ),
  wait_timeout: entry(
    504,
    'later',
    true,
    'The execution did not end within the wait. It continues.',
    'Ask for its result with its execution_id.',
  ),
  busy: entry(
    503,
    'later',
    false,
    'This process has too much to do at the moment.',
    'Try again shortly, or send the request to another process.',
  ),
  shutting_down: entry(
    503,
    'later',
    false,
    'This process is shutting down and accepts no more requests.',
    'Send the request to another process.',
  ),
  fenced: entry(
    409,
    'never',
    true,
    'Another worker has taken over this attempt.',
    'Nothing to do: the other worker completes it.',
  ),
  record_too_new: entry(
    503,
    'elsewhere',
    false,
    'A newer version of Cofferdam wrote this record, so this process cannot read it.',
    'Operators: upgrade this process, or keep a newer one running until its executions have ended.',
  ),
  backend_unknown: entry(400, 'never', false, 'There is no backend with that name.', 'See GET /v1/backends.'),
  issuer_unavailable: entry(
    503,
    'later',
    false,
    'The OAuth issuer does not answer, so access tokens cannot be checked.',
    'Try again later, or use an API key. Operators: check COFFERDAM_OAUTH_ISSUER and the log.',
  ),
  backend_unavailable: entry(
    503,
    'elsewhere',
    false,
    'The backend is not available.',
    'Use another backend. Operators: run cofferdam doctor for the reason.',
  ),
  capability_missing: entry(
    422,
    'elsewhere',
    false,
    'The backend does not support something in the request.',
    'Choose another backend, or remove the option that the message names.',
  ),
  isolation_unavailable: entry(
    503,
    'later',
    false,
    'No backend on this worker has the required isolation.',
    'Operators: run cofferdam doctor, and install Docker, bubblewrap or gVisor.',
  ),
  sandbox_open_failed: entry(
    503,
    'elsewhere',
    false,
    'The sandbox could not be opened. The attempt was not charged.',
    'Try again. Operators: see the log of the worker.',
  ),
  sandbox_lost: entry(
    500,
    'never',
    true,
    'The sandbox was lost while the program ran.',
    'Run the program again if it is idempotent.',
  ),
  protocol_violation: entry(
    500,
    'never',
    true,
    'The sandbox sent invalid data, so it was destroyed.',
    'Treat the program as hostile.',
  ),
  config_invalid: entry(
    500,
    'never',
    false,
    'The configuration is not valid.',
    'Correct the variables or keys that the message names.',
  ),
  interpreter_not_ready: entry(
    503,
    'elsewhere',
    false,
    'The backend is not provisioned for this tenant yet.',
    'Try again in 30 s. Operators: run cofferdam provision for the backend and the tenant.',
  ),
  internal: entry(500, 'later', false, 'Something failed on our side.', 'Report the trace_id.'),
} as const satisfies Record<string, ErrorEntry>

export type ErrorCode = keyof typeof ERRORS

/** Whether the table has `code`, which may come from another process or release. */
export const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(ERRORS, code)

/** The platform's error type. `message` and `details` are public. Secrets and internals belong in `cause`. */
export class CofferdamError extends Error {
  readonly code: ErrorCode
  readonly details: Record<string, unknown>
  /** The value of the table, unless the API that sent the error gave another one. */
  readonly retry: Retry

  constructor(
    code: ErrorCode,
    message?: string,
    options: { details?: Record<string, unknown>; retry?: Retry; cause?: unknown } = {},
  ) {
    super(message ?? ERRORS[code].message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'CofferdamError'
    this.code = code
    this.details = options.details ?? {}
    this.retry = options.retry ?? ERRORS[code].retry
  }

  get entry(): ErrorEntry {
    return ERRORS[this.code]
  }
}

/** True for our own errors, even from another copy of this module. */
export function isCofferdamError(error: unknown): error is CofferdamError {
  return (
    error instanceof Error &&
    error.name === 'CofferdamError' &&
    'code' in error &&
    isErrorCode(String(error.code))
  )
}
