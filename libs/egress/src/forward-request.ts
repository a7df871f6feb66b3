/**
 * Forwards plain HTTP. Node's parser reads the request and this code writes it again, so that the program's
 * framing tricks never reach an origin. `Host` is set to the host that was judged. Each request has its own
 * connection to the origin, so a redirect, or the next request of a kept connection, is judged like the
 * first.
 */
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Dial } from './dial.ts'
import { parseAuthority, type Target } from './host.ts'
import { Refused } from './refusal.ts'

/** From RFC 9110 §7.6.1, and headers that old proxies added. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Target and path of an absolute-form request. Throws `Refused` for every other form. */
export function requestTarget(url: string): { target: Target; path: string } {
  const match = /^http:\/\/([^/?#]*)([^#]*)/i.exec(url)
  const target = match === null ? null : parseAuthority(match[1] ?? '', 80)
  if (match === null || target === null)
    throw new Refused(
      url.slice(0, 128),
      'invalid_request',
      'this is an HTTP proxy, and that is no http:// address with a plain host',
    )
  const path = match[2] ?? ''
  return { target, path: path.startsWith('/') ? path : `/${path}` }
}

/** Target and path of a request through a tunnel to `target`. Throws `Refused` for another host. */
export function tunnelledTarget(
  { url = '', headers }: IncomingMessage,
  target: Target,
): { target: Target; path: string } {
  if (/^websocket$/i.test(headers.upgrade ?? ''))
    throw new Refused(
      target.text,
      'invalid_request',
      'a plain connection is not upgraded under an allow-list; use TLS (wss://)',
    )
  const asked = url.startsWith('/') ? { target, path: url } : requestTarget(url)
  const named = headers.host === undefined ? null : parseAuthority(headers.host, target.port)
  for (const one of [asked.target, named])
    if (one === null || one.host.text !== target.host.text || one.port !== target.port)
      throw new Refused(
        target.text,
        'server_name',
        `the HTTP request asks for "${(one === named ? (headers.host ?? '') : url).slice(0, 253)}"`,
      )
  return asked
}

/** The end-to-end header lines, in order: without hop-by-hop headers and those that `Connection` names. */
function endToEnd(raw: readonly string[], drop: readonly string[]): string[] {
  const pairs = Array.from({ length: raw.length / 2 }, (_, at) => [raw[2 * at] ?? '', raw[2 * at + 1] ?? ''])
  const named = pairs
    .filter(([name]) => name?.toLowerCase() === 'connection')
    .flatMap(([, value]) => (value ?? '').toLowerCase().split(','))
    .map((name) => name.trim())
  const gone = new Set([...HOP_BY_HOP, ...named, ...drop])
  return pairs.filter(([name]) => !gone.has((name ?? '').toLowerCase())).flat()
}

/** Sends `request` to its target and returns the answer. Rejects with `Refused` if nothing was answered. */
export async function forwardRequest(
  request: IncomingMessage,
  response: ServerResponse,
  { target, path }: { target: Target; path: string },
  dial: Dial,
  signal: AbortSignal,
): Promise<void> {
  if (/^websocket$/i.test(request.headers.upgrade ?? ''))
    throw new Refused(target.text, 'invalid_request', 'upgraded connections pass by CONNECT only')
  const given = new AbortController()
  const giveUp = (): void => given.abort()
  response.once('close', giveUp)
  const upstream = await dial(target, AbortSignal.any([signal, given.signal]))
  response.once('close', () => upstream.destroy())
  try {
    const answer = await exchange(request, upstream, target, path)
    response.sendDate = false
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage ?? '', endToEnd(answer.rawHeaders, []))
    await pipeline(answer, response)
  } catch (error) {
    if (response.headersSent) response.destroy()
    else if (upstream.errored instanceof Refused) throw upstream.errored
    else if (error instanceof Refused) throw error
    else throw new Refused(target.text, 'unreachable', 'the origin gave no valid HTTP answer', error)
  } finally {
    upstream.destroy()
  }
}

function exchange(
  request: IncomingMessage,
  upstream: Duplex,
  target: Target,
  path: string,
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const isChunked = request.headers['transfer-encoding'] !== undefined
  const host = target.port === 80 ? target.host.text : target.text
  const out = httpRequest({
    method: request.method,
    path,
    createConnection: () => upstream,
    headers: [
      'Host',
      host,
      ...endToEnd(request.rawHeaders, ['host', 'expect']),
      ...(isChunked ? ['Transfer-Encoding', 'chunked'] : []),
      'Connection',
      'close',
    ],
  })
  out.once('response', resolve).once('error', reject)
  // The origin may answer and close before the whole body was sent. The error of the unfinished body must not
  // end the worker.
  out.on('error', () => undefined)
  upstream.once('close', () => reject(new Error('the connection ended')))
  if (isChunked || request.headers['content-length'] !== undefined)
    pipeline(request, out).catch((error: unknown) => reject(error as Error))
  else out.end()
  return promise
}
