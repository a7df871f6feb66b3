/** Bodies of the control API: JSON both ways, errors as `{code, message}`. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { E2B } from './published.ts'

/** No client sends a larger request. */
const BODY_MAX = 1024 * 1024

export function reply(response: ServerResponse, status: number, body?: object): void {
  const text = body === undefined ? '' : JSON.stringify(body)
  response.writeHead(status, text === '' ? {} : { 'Content-Type': 'application/json' }).end(text)
}

/** Sends an answer of the control API. Throws if it does not have the published shape. */
export function replyPublished(response: ServerResponse, status: number, body?: object): void {
  const { method = '', url = '/' } = response.req
  E2B.checkAnswer(method, new URL(url, 'http://double').pathname, status, body)
  reply(response, status, body)
}

export const fail = (response: ServerResponse, code: number, message: string): void =>
  reply(response, code, { code, message })

/** The page of a gateway instead of an answer. */
export const page = (response: ServerResponse): void =>
  void response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' }).end('<title>Sign in</title>')

export async function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length
    if (size > BODY_MAX) throw new Error('the body is too large')
    parts.push(part)
  }
  try {
    const parsed: unknown = JSON.parse(Buffer.concat(parts).toString('utf8') || '{}')
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
