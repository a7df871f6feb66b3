/** One exchange with the HTTP API: headers, the end of silent connections, failures as `CofferdamError`. */
import { CofferdamError } from '@cofferdam/contract/error-table'
import { errorOf } from './error-answer.ts'
import { watchOver } from './watch-silence.ts'

export interface HttpTarget {
  /** Without a slash at its end. */
  baseUrl: string
  apiKey: string
  fetch: typeof fetch
  /** Ends every call, with `shutting_down`, when the client is closed. */
  closed: AbortSignal
  /** How long failed calls are repeated, in milliseconds. */
  retryForMs: number
}

/** Values of a query string. Undefined ones are left out. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>

export interface HttpCall {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Below `/v1`, with every part encoded. */
  path: string
  query?: Query | undefined
  /** Bytes are sent unchanged, everything else as JSON. */
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
  /** How long the answer may take to begin, in milliseconds. Default 30,000. */
  timeoutMs?: number | undefined
}

export interface Answer {
  status: number
  /** The body. Throws `queue_unavailable` when it breaks off. */
  chunks: () => AsyncGenerator<Uint8Array, void, undefined>
  /** Must be called when the answer was read or is not needed any more. */
  end: () => void
}

const DEFAULT_TIMEOUT_MS = 30_000
/** An answer that has begun may pause this long. The API sends a comment every 15 s on silent streams. */
const SILENCE_MS = 45_000

/** Sends one request. Throws CofferdamError for every answer other than 2xx, and when there is none. */
export async function open(target: HttpTarget, call: HttpCall): Promise<Answer> {
  const watch = watchOver([call.signal, target.closed])
  const failure = (error: unknown): unknown => {
    if (call.signal?.aborted === true) return call.signal.reason
    if (target.closed.aborted) return target.closed.reason
    return error instanceof CofferdamError ? error : unreachable(target, error)
  }
  async function* chunks(
    body: ReadableStream<Uint8Array> | null,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    if (body === null) return
    const reader = body.getReader()
    try {
      for (;;) {
        watch.limitSilence(SILENCE_MS)
        const { done, value } = await reader.read()
        // The time that the caller needs for a chunk does not count as silence of the API.
        watch.limitSilence(null)
        if (done) return
        yield value
      }
    } catch (error) {
      throw failure(error)
    }
  }
  try {
    watch.limitSilence(call.timeoutMs ?? DEFAULT_TIMEOUT_MS)
    const response = await target.fetch(urlOf(target, call), {
      ...messageOf(target, call),
      signal: watch.signal,
    })
    if (!response.ok) throw await errorOf(response, chunks(response.body))
    return { status: response.status, chunks: () => chunks(response.body), end: watch.end }
  } catch (error) {
    watch.end()
    throw failure(error)
  }
}

/** No answer at all, or an answer whose body broke off. */
export const unreachable = (target: HttpTarget, cause: unknown): CofferdamError =>
  new CofferdamError('queue_unavailable', `The API at ${new URL(target.baseUrl).origin} does not answer.`, {
    cause,
  })

function urlOf({ baseUrl }: HttpTarget, { path, query = {} }: HttpCall): string {
  const named = Object.entries(query).filter(([, value]) => value !== undefined)
  const search = new URLSearchParams(named.map(([name, value]) => [name, String(value)])).toString()
  return `${baseUrl}/v1${path}${search === '' ? '' : `?${search}`}`
}

function messageOf(target: HttpTarget, { method, body, headers }: HttpCall): RequestInit {
  const isBytes = body instanceof Uint8Array
  const type = isBytes ? 'application/octet-stream' : 'application/json'
  return {
    method,
    headers: {
      authorization: `Bearer ${target.apiKey}`,
      ...(body === undefined ? {} : { 'content-type': type }),
      ...traceHeader(),
      ...headers,
    },
    ...(body === undefined
      ? {}
      : { body: isBytes ? (body as Uint8Array<ArrayBuffer>) : JSON.stringify(body) }),
  }
}

/**
 * All copies of OpenTelemetry's API of major version 1 share one global object and one key for spans under
 * these symbols (@opentelemetry/api: internal/global-utils.ts, context/context.ts, trace/context-utils.ts).
 */
const API = Symbol.for('opentelemetry.js.api.1')
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN')

interface OpenTelemetry {
  context?: { active(): { getValue(key: symbol): unknown } }
}
interface Span {
  spanContext(): { traceId: string; spanId: string; traceFlags: number }
}

/**
 * The header `traceparent` (W3C Trace Context) of the active span, without a dependency on OpenTelemetry.
 * Empty if no span is active.
 */
function traceHeader(): Record<string, string> {
  const api = (globalThis as { [API]?: OpenTelemetry })[API]
  const span = api?.context?.active().getValue(SPAN) as Span | undefined
  if (span === undefined) return {}
  const { traceId, spanId, traceFlags } = span.spanContext()
  if (!/[1-9a-f]/.test(traceId) || !/[1-9a-f]/.test(spanId)) return {}
  return { traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}` }
}
