/** HTTP of the double: bounded bodies, answers and errors in Azure's form, and calls into a jail. */
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'

/** The service's limit of an upload; larger bodies get 413. */
const UPLOAD_MAX = 128 * 1024 * 1024

/** A refused request, answered with Azure's error body. */
export class Refusal extends Error {
  readonly status: number
  readonly code: string
  readonly headers: Record<string, string>
  constructor(status: number, code: string, message: string, headers: Record<string, string> = {}) {
    super(message)
    this.status = status
    this.code = code
    this.headers = headers
  }
}

/** Breaks the connection instead of answering. */
export class Dropped extends Error {}

export function reply(
  response: ServerResponse,
  status: number,
  body?: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, {
    ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    ...headers,
  })
  response.end(body === undefined ? undefined : JSON.stringify(body))
}

/** An answer cut by a proxy: half of the JSON, with a matching length. */
export function replyHalf(response: ServerResponse, status: number, body: unknown): void {
  const whole = Buffer.from(JSON.stringify(body))
  const half = whole.subarray(0, whole.length >> 1)
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': String(half.length) })
  response.end(half)
}

/** A page of a gateway instead of the answer. */
export function replyPage(response: ServerResponse, status: number): void {
  response.writeHead(status, { 'Content-Type': 'text/html' })
  response.end('<!doctype html><title>Our services are not available right now</title>')
}

/** Answers an error in the service's form. Breaks the connection for Dropped, or if an answer has begun. */
export function replyError(response: ServerResponse, error: unknown): void {
  if (error instanceof Dropped || response.headersSent) return void response.destroy()
  const { status, code, message, headers } =
    error instanceof Refusal ? error : new Refusal(500, 'InternalServerError', String(error))
  reply(response, status, { error: { code, message, target: 'session' } }, headers)
}

export async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length
    if (size <= UPLOAD_MAX) parts.push(part)
  }
  if (size > UPLOAD_MAX) throw new Refusal(413, 'PayloadTooLarge', 'The upload exceeds 128 MB.')
  return Buffer.concat(parts)
}

export const textOf = async (request: IncomingMessage): Promise<string> => (await bytesOf(request)).toString()

export async function jsonOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  try {
    return JSON.parse(await textOf(request)) as Record<string, unknown>
  } catch (error) {
    if (error instanceof Refusal) throw error
    throw new Refusal(400, 'SessionRequestValidationFailed', 'The body is not JSON.')
  }
}

/** Calls a server in a jail; rejects if the jail ends meanwhile. */
export async function callJail(
  socketPath: string,
  method: string,
  path: string,
  body: Uint8Array = new Uint8Array(),
  headers: Record<string, string> = {},
): Promise<{ status: number; headers: IncomingMessage['headers']; body: Buffer }> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const outgoing = httpRequest(
    { socketPath, method, path, headers: { ...headers, 'Content-Length': String(body.length) } },
    resolve,
  )
  outgoing.once('error', reject)
  outgoing.end(body)
  const response = await promise
  return { status: response.statusCode ?? 502, headers: response.headers, body: await bytesOf(response) }
}
