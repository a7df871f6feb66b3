/** Reads the error that the API sent, also one of a later release or of a proxy in front of the API. */
import { CofferdamError, isErrorCode, type ErrorCode, type Retry } from '@cofferdam/contract/error-table'
import { textOf } from './read-answer.ts'

/**
 * The error of an answer other than 2xx. `details` has `status`, `trace_id`, and `retry_after_s` from the
 * header `Retry-After`. If this release does not know the API's code, the error's code follows from the
 * status, `details.code` has the API's code, and `retry` is what the API said.
 */
export async function errorOf(response: Response, body: AsyncIterable<Uint8Array>): Promise<CofferdamError> {
  const said = bodyOf(await textOf(body).catch(() => ''))
  const seconds = Number(response.headers.get('retry-after') ?? 'none')
  const facts = {
    status: response.status,
    ...(Number.isFinite(seconds) ? { retry_after_s: seconds } : {}),
  }
  if (said === null) {
    const message = `The API answered ${response.status}.`
    return new CofferdamError(codeOf(response.status), message, { details: facts })
  }
  const isKnown = isErrorCode(said.code)
  return new CofferdamError(isKnown ? (said.code as ErrorCode) : codeOf(response.status), said.message, {
    retry: said.retry,
    details: {
      ...said.details,
      ...(said.trace_id === undefined ? {} : { trace_id: said.trace_id }),
      ...(isKnown ? {} : { code: said.code }),
      ...facts,
    },
  })
}

interface Said {
  code: string
  message: string
  retry: Retry
  details?: Record<string, unknown>
  trace_id?: string
}

/** What the API's own error body says. Null if the answer has another shape, such as a proxy's page. */
function bodyOf(text: string): Said | null {
  try {
    const { error } = JSON.parse(text) as { error?: Partial<Said> }
    const isOurs =
      typeof error?.code === 'string' &&
      typeof error.message === 'string' &&
      ['never', 'later', 'elsewhere'].includes(error.retry ?? '')
    return isOurs ? (error as Said) : null
  } catch {
    return null
  }
}

function codeOf(status: number): ErrorCode {
  if (status === 401) return 'unauthenticated'
  if (status === 403) return 'forbidden'
  if (status === 404) return 'not_found'
  if (status === 413) return 'payload_too_large'
  if (status === 429) return 'rate_limited'
  if (status === 502 || status === 503 || status === 504) return 'queue_unavailable'
  return status < 500 ? 'invalid_request' : 'internal'
}
