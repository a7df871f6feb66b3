/**
 * Every failure leaves in the one error shape of the contract: ours as they are, fastify's and node's translated,
 * everything else as `internal` without its message, which goes to the log.
 */
import { CofferdamError, isCofferdamError, toErrorBody, type ErrorCode } from '@cofferdam/contract'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { leavesBodyUnread } from './receive-body.ts'

/**
 * Answers `error` on `reply`, and logs it: what we refuse on purpose in a line, our failures with their
 * cause.
 */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const translated = translate(error)
  const { http, body } = toErrorBody(translated, request.traceId)
  const { code, message } = body.error
  if (http < 500) request.log.debug({ code, trace_id: request.traceId }, message)
  else if (REFUSALS.has(code)) request.log.info({ code, trace_id: request.traceId }, message)
  else request.log.error({ err: error, trace_id: request.traceId }, 'request failed')
  if (http === 401) void reply.header('www-authenticate', 'Bearer realm="cofferdam"')
  if (body.error.retry === 'later' && http >= 429)
    void reply.header('retry-after', retryAfterSeconds(translated))
  if (leavesBodyUnread(request)) void reply.header('connection', 'close')
  void reply
    .code(statusOf(translated) ?? http)
    .type('application/json; charset=utf-8')
    .serializer(JSON.stringify)
    .send(body)
}

/** 5xx that a full or leaving process answers on purpose: nothing failed. */
const REFUSALS: ReadonlySet<string> = new Set<ErrorCode>(['busy', 'shutting_down', 'wait_timeout'])

/** Beyond a minute a forecast is none: workers come and go. */
const RETRY_AFTER_MAX_S = 60

/**
 * Of a full queue when room comes, by its forecast, and of a limited rate when the next is let through;
 * everything else that passes is over in a moment or not foreseen.
 */
function retryAfterSeconds(error: unknown): number {
  if (!isCofferdamError(error) || (error.code !== 'queue_full' && error.code !== 'rate_limited')) return 1
  const { room_in_ms: roomInMs, retry_in_ms: inMs = roomInMs } = error.details
  const seconds = typeof inMs === 'number' ? Math.ceil(inMs / 1000) : RETRY_AFTER_MAX_S
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

/** For paths that nobody has. A known path with another method is handled by `refuseOtherMethods`. */
export const noSuchPath = (): CofferdamError =>
  new CofferdamError('not_found', 'There is no such path; see /openapi.json.')

/** Every error of a hook or handler leaves in the one shape. */
export function installErrorResponses(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply))
  app.setNotFoundHandler((request, reply) => sendError(noSuchPath(), request, reply))
}
