/** Answers of what node refuses before fastify sees a request, in the one error shape. */
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { CofferdamError, toErrorBody } from '@cofferdam/contract'
import type { FastifyInstance } from 'fastify'
import { SECURITY_HEADERS } from './security-headers.ts'
import { newTraceId } from './trace-id.ts'

/**
 * Answers what node's HTTP parser refused before there was a request: headers above 16 KiB (node's bound, URL
 * included), requests that came too slowly, bytes that are not HTTP.
 */
export function answerClientError(error: Error & { code?: string }, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  answerSocket(socket, ...clientFailure(error.code))
}

/**
 * Answers CONNECT, and expectations other than `100-continue`, which node would drop or answer without a
 * body.
 */
export function answerOddRequests(app: FastifyInstance): void {
  app.server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    socket.on('error', () => undefined)
    answerSocket(
      socket,
      405,
      new CofferdamError('method_not_allowed', 'This is no proxy: no path takes CONNECT.'),
    )
  })
  app.server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    const { headers, text } = answerOf(
      new CofferdamError('invalid_request', 'The only expectation that is met is 100-continue.'),
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
