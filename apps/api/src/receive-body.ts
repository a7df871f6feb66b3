/**
 * Reads request bodies so that nobody can occupy memory by announcing a body or by sending it slowly. A
 * body is read once its caller is known, counts against the caller's share as its bytes arrive, and must
 * arrive at a minimum rate.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { CofferdamError } from '@cofferdam/contract'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { holderOf } from './authenticate.ts'
import { noCapacity, type Hold, type Shares } from './shares.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What the body uses of the budget. Null when there is no body. */
    bodyHold: Hold | null
  }
}

/**
 * The minimum number of bytes of a body that must arrive in each window. A body that ends in its first window
 * always passes.
 */
export interface LeastRate {
  bytes: number
  windowMs: number
}

/** Requests whose caller waits for `100 Continue` before it sends the body. */
const continuing = new WeakMap<IncomingMessage, ServerResponse>()

/** Bounds bodies by `budget` (bytes). Call before any content type parser is added. */
export function limitBodies(app: FastifyInstance, budget: Shares): void {
  app.decorateRequest('bodyHold', null)
  app.addHook('preParsing', (request, reply, _payload, done) => {
    if (!hasBody(request)) return done()
    const hold = budget.take(holderOf(request), 0)
    if (hold === null) return done(noCapacity('request bodies'))
    request.bodyHold = hold
    // `close` is emitted in every case: answered, aborted, or destroyed.
    reply.raw.once('close', () => hold[Symbol.dispose]())
    done()
  })
  // By default node asks for the body at once, before the key is checked.
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    continuing.set(request, response)
    app.server.emit('request', request, response)
  })
}

/** Whether the answer is sent before the body was read. The connection cannot be used again then. */
export const leavesBodyUnread = (request: FastifyRequest): boolean =>
  hasBody(request) && !request.raw.complete

function hasBody({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/**
 * Returns the body of `request`, at most `limit` bytes. Throws `payload_too_large`; `busy` when the
 * caller's share or the budget is used up; `request_timeout` when it arrives too slowly; `invalid_request`
 * when its length is not that of Content-Length.
 */
async function receiveBody(
  request: FastifyRequest,
  payload: Readable,
  { limit, least }: { limit: number; least: LeastRate },
): Promise<Buffer> {
  const announced = request.headers['content-length']
  const length = announced === undefined ? null : Number(announced)
  if (length !== null && length > limit) throw new CofferdamError('payload_too_large')
  continuing.get(request.raw)?.writeContinue()
  const { promise, resolve, reject } = Promise.withResolvers<undefined>()
  const chunks: Buffer[] = []
  let received = 0
  let receivedBefore = 0
  const onData = (chunk: Buffer): void => {
    received += chunk.length
    chunks.push(chunk)
    if (received > limit) reject(new CofferdamError('payload_too_large'))
    else if (request.bodyHold?.grow(chunk.length) === false) reject(noCapacity('request bodies'))
  }
  const onEnd = (): void => resolve(undefined)
  const clock = setInterval(() => {
    if (received - receivedBefore < least.bytes) reject(tooSlow(least))
    receivedBefore = received
  }, least.windowMs)
  payload.on('data', onData).once('end', onEnd).once('error', reject)
  try {
    await promise
  } finally {
    clearInterval(clock)
    payload.off('data', onData).off('end', onEnd).off('error', reject).pause()
    // The rest of a refused body is ignored. An error without a listener would end the process.
    payload.on('error', () => undefined)
  }
  if (length !== null && received !== length)
    throw new CofferdamError('invalid_request', 'the body is not as long as Content-Length says')
  return Buffer.concat(chunks, received)
}

const tooSlow = ({ bytes, windowMs }: LeastRate): CofferdamError =>
  new CofferdamError(
    'request_timeout',
    `The body arrived too slowly: at least ${bytes} bytes must arrive every ${windowMs / 1000} s.`,
  )

/** Reads a body up to the limit of its route, for a content type parser. Throws as `receiveBody`. */
export type BodyReader = (request: FastifyRequest, payload: Readable) => Promise<Buffer>

/** Creates the reader that every content type parser uses. */
export const createBodyReader =
  (least: LeastRate): BodyReader =>
  (request, payload) =>
    receiveBody(request, payload, { limit: request.routeOptions.bodyLimit ?? 0, least })
