/** Calls of the HTTP API: headers, failures with the API's own error code, and retries of safe calls. */
import { setTimeout as pause } from 'node:timers/promises'
import { CofferdamError, errorBodySchema, ERRORS, isErrorCode, type ErrorCode } from '@cofferdam/contract'
import { context, isSpanContextValid, trace } from '@opentelemetry/api'

export interface HttpTarget {
  baseUrl: string
  apiKey: string
  /** Replaces the global fetch, for example to add a proxy. */
  fetch: typeof fetch
  /** Ends every call when the client is closed. */
  closed: AbortSignal
}

export interface HttpCall {
  method: 'GET' | 'POST'
  path: string
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
  /** How long the answer may take to begin, in milliseconds. Default 30,000. */
  timeoutMs?: number
}

/** Tries of a repeatable call. Pauses double from 100 ms, which bridges a restart of the API (about 1 s). */
const TRIES = 5
const FIRST_PAUSE_MS = 100

/** Sends one request. Throws CofferdamError for every answer other than 2xx, and when there is none. */
export async function send(target: HttpTarget, call: HttpCall): Promise<Response> {
  const timeout = new AbortController()
  const timer = setTimeout(
    () => timeout.abort(new Error(`no answer within ${call.timeoutMs ?? 30_000} ms`)),
    call.timeoutMs ?? 30_000,
  )
  const signals = [target.closed, timeout.signal, ...(call.signal === undefined ? [] : [call.signal])]
  let response: Response
  try {
    response = await target.fetch(urlOf(target.baseUrl, call.path), {
      method: call.method,
      headers: {
        authorization: `Bearer ${target.apiKey}`,
        ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...traceHeader(),
        ...call.headers,
      },
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      signal: AbortSignal.any(signals),
    })
  } catch (error) {
    throw broken(target, call, error)
  } finally {
    clearTimeout(timer)
  }
  if (!response.ok) throw await errorOf(response)
  return response
}

export interface Answer {
  status: number
  body: unknown
}

/** Repeats a safe call while the API says `later`, does not answer, or breaks off its answer. */
export async function askRepeatedly(target: HttpTarget, call: HttpCall): Promise<Answer> {
  for (let turn = 1; ; turn += 1) {
    try {
      const response = await send(target, call)
      return { status: response.status, body: await jsonOf(target, call, response) }
    } catch (error) {
      if (turn === TRIES || call.signal?.aborted === true || !isTransient(error)) throw error
      await pause(
        FIRST_PAUSE_MS * 2 ** (turn - 1),
        undefined,
        call.signal === undefined ? {} : { signal: call.signal },
      )
    }
  }
}

/** True when the same call may work in a moment. For a full queue the caller decides. */
export function isTransient(error: unknown): boolean {
  return (
    error instanceof CofferdamError &&
    ERRORS[error.code].http >= 500 &&
    ERRORS[error.code].retry === 'later' &&
    error.code !== 'wait_timeout' &&
    !(error.code === 'shutting_down' && error.details['status'] === undefined)
  )
}

async function jsonOf(target: HttpTarget, call: HttpCall, response: Response): Promise<unknown> {
  try {
    return await response.json()
  } catch (error) {
    throw broken(target, call, error)
  }
}

/** Why there was no answer: the caller aborted, the client was closed, or the API is down. */
function broken(target: HttpTarget, call: HttpCall, error: unknown): unknown {
  if (call.signal?.aborted === true) return call.signal.reason
  if (target.closed.aborted) return new CofferdamError('shutting_down', 'The client is closed.')
  return unreachable(target, error)
}

/** An answer whose body broke off, or no answer at all. */
export const unreachable = (target: HttpTarget, cause: unknown): CofferdamError =>
  new CofferdamError('queue_unavailable', `The API at ${new URL(target.baseUrl).origin} does not answer.`, {
    cause,
  })

const urlOf = (baseUrl: string, path: string): string => `${baseUrl.replace(/\/+$/, '')}/v1${path}`

/** The error that the API sent. If the answer has another shape (from a proxy), its status gives the code. */
async function errorOf(response: Response): Promise<CofferdamError> {
  const body = errorBodySchema.safeParse(await response.json().catch(() => null))
  const status = { status: response.status }
  if (body.success) {
    const { code, message, details, trace_id } = body.data.error
    const known = isErrorCode(code) ? code : codeOf(response.status)
    return new CofferdamError(known, message, {
      details: { ...details, ...(trace_id === undefined ? {} : { trace_id }), ...status },
    })
  }
  return new CofferdamError(codeOf(response.status), `The API answered ${response.status}.`, {
    details: status,
  })
}

function codeOf(status: number): ErrorCode {
  if (status === 401) return 'unauthenticated'
  if (status === 403) return 'forbidden'
  if (status === 404) return 'not_found'
  if (status === 413) return 'payload_too_large'
  if (status === 429) return 'queue_full'
  if (status === 502 || status === 503 || status === 504) return 'queue_unavailable'
  return status < 500 ? 'invalid_request' : 'internal'
}

function traceHeader(): Record<string, string> {
  const span = trace.getSpanContext(context.active())
  if (span === undefined || !isSpanContextValid(span)) return {}
  const flags = span.traceFlags.toString(16).padStart(2, '0')
  return { traceparent: `00-${span.traceId}-${span.spanId}-${flags}` }
}
