/**
 * Sends every failure in the error shape of the contract. Errors of fastify and node are translated.
 * Anything else becomes `internal`, and its message goes to the log only.
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { CofferdamError, type ErrorCode, isCofferdamError, toErrorBody } from '@cofferdam/contract'
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import { leavesBodyUnread } from './receive-body.ts'
import { newTraceId } from './trace-id.ts'

/** Answers `error` on `reply` and logs it: refusals in one line, our own failures with their cause. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const translated = translate(error)
  const { http, body } = toErrorBody(translated, request.traceId)
  const { code, message } = body.error
  if (http < 500) request.log.debug({ code, trace_id: request.traceId }, message)
  else if (REFUSALS.has(code)) request.log.info({ code, trace_id: request.traceId }, message)
  else request.log.error({ err: error, trace_id: request.traceId }, 'request failed')
  if (http === 401 && !reply.hasHeader('www-authenticate'))
    void reply.header('www-authenticate', 'Bearer realm="cofferdam"')
  if (body.error.retry === 'later' && http >= 429)
    void reply.header('retry-after', retryAfterSeconds(translated))
  if (leavesBodyUnread(request)) void reply.header('connection', 'close')
  void reply
    .code(statusOf(translated) ?? http)
    .type('application/json; charset=utf-8')
    .serializer(JSON.stringify)
    .send(body)
}

/** 5xx codes that a full or draining process sends on purpose. They are no failures. */
const REFUSALS: ReadonlySet<string> = new Set<ErrorCode>(['busy', 'shutting_down', 'wait_timeout'])

/** Forecasts beyond a minute are worthless, because workers come and go. */
const RETRY_AFTER_MAX_S = 60

/** The forecast of a full queue, the time until the next token of a rate limit, or one second. */
function retryAfterSeconds(error: unknown): number {
  if (!isCofferdamError(error) || (error.code !== 'queue_full' && error.code !== 'rate_limited')) return 1
  const { room_in_ms: roomInMs, retry_in_ms: inMs = roomInMs } = error.details
  const seconds = typeof inMs === 'number' ? Math.ceil(inMs / 1000) : RETRY_AFTER_MAX_S
  return Math.min(RETRY_AFTER_MAX_S, Math.max(1, seconds))
}

/** Translates what fastify and node throw. Anything unknown is returned unchanged and becomes `internal`. */
function translate(error: unknown): unknown {
  // The messages of these two codes are for operators. They are logged and not sent to the caller.
  if (isCofferdamError(error) && (error.code === 'internal' || error.code === 'config_invalid')) {
    return new CofferdamError('internal', undefined, { cause: error })
  }
  if (isCofferdamError(error)) return error
  const code = codeOf(error)
  switch (code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_EMPTY_TYPE':
      return new CofferdamError('unsupported_media_type', undefined, { cause: error })
    case 'FST_ERR_BAD_URL':
      return invalid('the path is not valid percent-encoding', error)
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return invalid('a part of the path is too long', error)
    case 'ECONNRESET':
    case 'ERR_STREAM_PREMATURE_CLOSE':
      return invalid('the connection ended before the body did', error)
    default:
      return error
  }
}

/** A status that is more precise than that of the error table. */
function statusOf(error: unknown): number | null {
  const cause = isCofferdamError(error) ? error.cause : error
  return codeOf(cause) === 'FST_ERR_MAX_PARAM_LENGTH' ? 414 : null
}

function invalid(message: string, cause: unknown): CofferdamError {
  return new CofferdamError('invalid_request', message, { cause })
}

function codeOf(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null
}

/** For unknown paths. A known path with another method is handled by `refuseOtherMethods`. */
export const noSuchPath = (): CofferdamError =>
  new CofferdamError('not_found', 'There is no such path; see /openapi.json.')

/**
 * Sends every error of a hook or handler in the error shape of the contract. For an unknown path, `page`
 * answers instead, unless it returns null.
 */
export function installErrorResponses(
  app: FastifyInstance,
  page: (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply> | null,
): void {
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply))
  app.setNotFoundHandler((request, reply) => page(request, reply) ?? sendError(noSuchPath(), request, reply))
}

/**
 * Answers what node's HTTP parser refuses before fastify sees a request: headers above 16 KiB (node's
 * bound, URL included), requests that arrive too slowly, and bytes that are not HTTP.
 */
export function answerClientError(error: Error & { code?: string }, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  answerSocket(socket, ...clientFailure(error.code))
}

/**
 * Sends error responses that node would not send: for CONNECT, whose connection node closes, and for an
 * `Expect` other than `100-continue`, which node answers without a body.
 */
export function answerOddRequests(app: FastifyInstance): void {
  app.server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    socket.on('error', () => undefined)
    answerSocket(
      socket,
      405,
      new CofferdamError('method_not_allowed', 'This server is not a proxy: no path accepts CONNECT.'),
    )
  })
  app.server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    const { headers, text } = answerOf(
      new CofferdamError('invalid_request', 'The only supported expectation is 100-continue.'),
    )
    response.writeHead(417, headers).end(text)
  })
}

function clientFailure(code: string | undefined): [number, CofferdamError] {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return [431, new CofferdamError('payload_too_large', 'The URL and headers are larger than 16 KiB.')]
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return [408, new CofferdamError('request_timeout')]
  return [400, new CofferdamError('invalid_request', 'The bytes are not an HTTP/1.1 request.')]
}

function answerSocket(socket: Duplex, status: number, failure: CofferdamError): void {
  const { headers, text } = answerOf(failure)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('\r\n')}`
  socket.end(`${head}\r\n\r\n${text}`, () => socket.destroy())
}

function answerOf(failure: CofferdamError): { headers: Record<string, string>; text: string } {
  const traceId = newTraceId()
  const text = JSON.stringify(toErrorBody(failure, traceId).body)
  const headers = {
    ...SECURITY_HEADERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(text)),
    connection: 'close',
    'x-trace-id': traceId,
  }
  return { headers, text }
}

const METHODS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/**
 * Answers an unknown method on a known path with 405 and `Allow` instead of 404. Call it before routes are
 * added, and call `close` after the last one.
 */
export function refuseOtherMethods(app: FastifyInstance): { close(): void } {
  const taken = new Map<string, Set<string>>()
  let open = true
  app.addHook('onRoute', (route) => {
    if (!open) return
    const methods = taken.get(route.url) ?? new Set()
    for (const method of [route.method].flat()) methods.add(method)
    taken.set(route.url, methods)
  })
  return {
    close() {
      open = false
      for (const [url, methods] of taken) {
        const others = METHODS.filter((method) => !methods.has(method))
        const allow = [...methods].sort().join(', ')
        app.route({
          method: [...others],
          url,
          exposeHeadRoute: false,
          schema: { hide: true },
          // Runs before the key is checked and the body is read, because neither changes the answer.
          onRequest: async (_request, reply) => {
            void reply.header('allow', allow)
            throw new CofferdamError('method_not_allowed', `This path accepts ${allow}.`)
          },
          handler: async () => undefined,
        })
      }
    },
  }
}

/** Headers of every response. The API serves output of programs, so nothing it sends may run in a browser. */
export const SECURITY_HEADERS = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
  'cache-control': 'no-store',
} as const

/** Only the documentation page may run scripts, and only scripts from this origin. */
export const DOCS_CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
  "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
