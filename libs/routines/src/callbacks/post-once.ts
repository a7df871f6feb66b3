/**
 * One POST to a URL that a tenant chose. The host is resolved and checked once, and the connection goes to
 * the checked address. Redirects are not followed. Only the status of the answer is used.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { connect as tlsConnect } from 'node:tls'
import { refusalOf, type JudgedDial } from '@cofferdam/egress'

/** Time until the head of the answer. A receiver that needs longer should answer 202 first. */
const ANSWER_MS = 15_000
/** Bytes of the answer's body that are read before the connection is closed. */
const ANSWER_BYTES = 16 * 1024

export type Posted =
  | { ok: true; status: number }
  /** `final`: a retry cannot help. */
  | { ok: false; status: number | null; error: string; final: boolean }

/** Never rejects. */
export async function postOnce(
  dial: JudgedDial,
  url: URL,
  body: string,
  headers: Record<string, string>,
  stop: AbortSignal,
): Promise<Posted> {
  const signal = AbortSignal.any([stop, AbortSignal.timeout(ANSWER_MS)])
  let raw: Duplex | null = null
  try {
    const isTls = url.protocol === 'https:'
    const port = url.port === '' ? (isTls ? 443 : 80) : Number(url.port)
    raw = await dial(url.hostname, port, signal)
    const status = await exchange(isTls ? secured(raw, url.hostname) : raw, url, body, headers, signal)
    if (status >= 200 && status < 300) return { ok: true, status }
    // A receiver unsubscribes with 410 (Standard Webhooks).
    return { ok: false, status, error: `it answered ${status}`, final: status === 410 }
  } catch (error) {
    return { ok: false, status: null, ...describe(error, signal) }
  } finally {
    raw?.destroy()
  }
}

function secured(raw: Duplex, hostname: string): Duplex {
  const isAddress = /^[\d.]+$|^\[/.test(hostname)
  return tlsConnect({
    socket: raw,
    ALPNProtocols: ['http/1.1'],
    ...(isAddress ? { host: hostname.replace(/^\[|\]$/g, '') } : { servername: hostname }),
  })
}

async function exchange(
  connection: Duplex,
  url: URL,
  body: string,
  headers: Record<string, string>,
  signal: AbortSignal,
): Promise<number> {
  const answered = Promise.withResolvers<IncomingMessage>()
  const sent = httpRequest(
    {
      method: 'POST',
      path: `${url.pathname}${url.search}`,
      headers: {
        host: url.host,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'user-agent': 'cofferdam-callbacks/1',
        ...headers,
        connection: 'close',
      },
      createConnection: () => connection,
      signal,
    },
    answered.resolve,
  )
  sent.on('error', answered.reject)
  connection.on('error', answered.reject)
  sent.end(body)
  const answer = await answered.promise
  let taken = 0
  answer.on('error', () => undefined)
  answer.on('data', (chunk: Buffer) => {
    taken += chunk.length
    if (taken > ANSWER_BYTES) answer.destroy()
  })
  return answer.statusCode ?? 0
}

/** Text for the tenant: what the tenant can act on, without details of our network. */
function describe(error: unknown, signal: AbortSignal): { error: string; final: boolean } {
  const rule = refusalOf(error)
  if (rule === 'address') return { error: 'its address is not public', final: true }
  if (rule === 'unresolvable') return { error: 'its name cannot be resolved', final: false }
  if (signal.aborted || rule === 'timeout') return { error: 'it did not answer in time', final: false }
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (/CERT|TLS|SSL|ALTNAME|SELF_SIGNED/.test(code)) return { error: `TLS failed (${code})`, final: false }
  return { error: 'the connection failed', final: false }
}
