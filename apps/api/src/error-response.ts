/**
 * Every failure leaves in the one error shape of the contract: ours as they are, fastify's and node's translated,
 * everything else as `internal` without its message, which goes to the log.
 */
import { CofferdamError, isCofferdamError, toErrorBody, type ErrorBody } from '@cofferdam/contract'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { SECURITY_HEADERS } from './security-headers.ts'
import { newTraceId } from './trace-id.ts'

/** Answers `error` on `reply`. Failures of our side are logged with their cause, refusals only at debug. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const translated = translate(error)
  const { http, body } = toErrorBody(translated, request.traceId)
  if (http >= 500) request.log.error({ err: error, trace_id: request.traceId }, 'request failed')
  else request.log.debug({ code: body.error.code, trace_id: request.traceId }, body.error.message)
  if (http === 401) void reply.header('www-authenticate', 'Bearer realm="cofferdam"')
  if (body.error.retry === 'later' && http >= 429)
    void reply.header('retry-after', retryAfterSeconds(translated))
  if (http === 413) void reply.header('connection', 'close')
  void reply
    .code(statusOf(translated) ?? http)
    .type('application/json; charset=utf-8')
    .serializer(JSON.stringify)
    .send(body)
}

/** Beyond a minute a forecast is none: workers come and go. */
const RETRY_AFTER_MAX_S = 60

/** Of a full queue when room comes, by its forecast; everything else that passes is over in a moment or not foreseen. */
function retryAfterSeconds(error: unknown): number {
  if (!isCofferdamError(error) || error.code !== 'queue_full') return 1
  const { room_in_ms: roomInMs } = error.details
  const seconds = typeof roomInMs === 'number' ? Math.ceil(roomInMs / 1000) : RETRY_AFTER_MAX_S
  return Math.min(RETRY_AFTER_MAX_S, Math.max(1, seconds))
}

/** What fastify and node throw, in our words; anything unknown stays as it is and becomes `internal`. */
function translate(error: unknown): unknown {
  // These are told to operators, by the log.
  if (isCofferdamError(error) && (error.code === 'internal' || error.code === 'config_invalid')) {
    return new CofferdamError('internal', undefined, { cause: error })
  }
  if (isCofferdamError(error)) return error
  const code = codeOf(error)
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new CofferdamError('payload_too_large', undefined, { cause: error })
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_EMPTY_TYPE':
      return new CofferdamError('unsupported_media_type', undefined, { cause: error })
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return invalid('the body is not as long as Content-Length says', error)
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

/** Statuses of HTTP that say more than the table's code does. */
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

/**
 * Answers what node's HTTP parser refused before there was a request: headers above 16 KiB (node's bound, URL
 * included), requests that came too slowly, bytes that are not HTTP.
 */
export function answerClientError(error: Error & { code?: string }, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, failure] = clientFailure(error.code)
  const { body } = toErrorBody(failure, newTraceId())
  socket.end(rawResponse(status, body), () => socket.destroy())
}

function clientFailure(code: string | undefined): [number, CofferdamError] {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return [431, new CofferdamError('payload_too_large', 'The URL and headers are larger than 16 KiB.')]
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return [408, new CofferdamError('invalid_request', 'The request did not arrive in time.')]
  }
  return [400, new CofferdamError('invalid_request', 'The bytes are not an HTTP/1.1 request.')]
}

function rawResponse(status: number, body: ErrorBody): string {
  const text = JSON.stringify(body)
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(text)),
    connection: 'close',
    ...SECURITY_HEADERS,
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('\r\n')}\r\n\r\n${text}`
}

/** Unknown paths are 404; known paths with another method are handled by `refuseOtherMethods`. */
export function installErrorResponses(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply))
  app.setNotFoundHandler((request, reply) =>
    sendError(new CofferdamError('not_found', 'There is no such path; see /openapi.json.'), request, reply),
  )
}
