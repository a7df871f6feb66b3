/**
 * Requests and watches of the Kubernetes API, with bounded answers and our own client (docs/decisions/0018).
 */
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { CofferdamError, unlessAborted } from '@cofferdam/contract'
import { boundedBody, retryAfterMs } from '@cofferdam/backend-remote'
import type { KubernetesConfig } from './config.ts'
import { createConnect } from './connect.ts'

/** The largest answer: twice the size of a list of a thousand claims. */
const ANSWER_MAX = 16 * 1024 * 1024
/** One event of a watch holds one object. */
const EVENT_MAX = 1024 * 1024
/** Longest wait for a watch to begin. Until a watch works, only lists report claims. */
const HEAD_MS = 5_000

/** Errors that say that no connection was made. */
const NOT_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'])

/** The API server did not receive the request. */
export class NothingSent extends CofferdamError {}

export interface KubeAnswer {
  status: number
  body: unknown
  /** What `Retry-After` asks for, in milliseconds. Null if it is absent or a date. */
  retryAfterMs: number | null
}

export interface WatchEvent {
  type: string
  object: unknown
}

export interface KubeApi {
  /** Resolves with any status. Rejects if no answer came, with NothingSent if the request was not sent. */
  call(method: string, path: string, options?: CallOptions): Promise<KubeAnswer>
  /**
   * Yields events until the server ends the watch. A status other than 200 becomes one ERROR event. Throws
   * `backend_unavailable`, `protocol_violation` or the reason of `signal`.
   */
  watch(path: string, signal: AbortSignal): AsyncGenerator<WatchEvent>
}

interface CallOptions {
  body?: unknown
  /** Default application/json. A patch needs its own type, because the server takes JSON Patch by default. */
  contentType?: string
  signal?: AbortSignal | null
}

/** Creates a client for the API server of the configuration. */
export function createKubeApi(config: KubernetesConfig): KubeApi {
  const connect = createConnect(config)
  const target = config.kubeconfig === null ? config.api_server : `the API server of ${config.kubeconfig}`

  async function send(
    method: string,
    path: string,
    { body, contentType = 'application/json', signal }: CallOptions & { signal: AbortSignal },
  ): Promise<IncomingMessage> {
    // Stop waiting at an abort, because a credential plugin is a program and can hang.
    const { server, options, renew } = await unlessAborted(connect(), signal)
    const url = new URL(`.${path}`, server.endsWith('/') ? server : `${server}/`)
    const text = body === undefined ? '' : JSON.stringify(body)
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const outgoing = (url.protocol === 'https:' ? httpsRequest : httpRequest)(
      url,
      {
        ...options,
        method,
        signal,
        headers: {
          Accept: 'application/json',
          ...(options.headers as OutgoingHttpHeaders),
          ...(text === '' ? {} : { 'Content-Type': contentType, 'Content-Length': Buffer.byteLength(text) }),
        },
      },
      resolve,
    )
    outgoing.once('error', reject)
    outgoing.end(text)
    const response = await promise
    if (response.statusCode === 401) renew()
    return response
  }

  function unreachable(error: unknown): CofferdamError {
    if (error instanceof CofferdamError) return error
    const message = `Kubernetes: ${target} does not answer.`
    return NOT_CONNECTED.has((error as NodeJS.ErrnoException).code ?? '')
      ? new NothingSent('backend_unavailable', message, { cause: error })
      : new CofferdamError('backend_unavailable', message, { cause: error })
  }

  return {
    async call(method, path, { signal = null, ...options } = {}) {
      const timeout = AbortSignal.timeout(config.api_timeout_ms)
      const stop = signal === null ? timeout : AbortSignal.any([signal, timeout])
      const ask = async (): Promise<KubeAnswer> => {
        const response = await send(method, path, { ...options, signal: stop })
        return {
          status: response.statusCode ?? 0,
          body: await jsonOf(response),
          retryAfterMs: retryAfterMs(response.headers['retry-after']),
        }
      }
      try {
        const answer = await ask()
        // The server did nothing. Retry once: the credentials may have been replaced in between.
        return answer.status === 401 ? await ask() : answer
      } catch (error) {
        signal?.throwIfAborted()
        throw unreachable(error)
      }
    },
    async *watch(path, signal) {
      try {
        const response = await begun(Math.min(HEAD_MS, config.api_timeout_ms), (opening) =>
          send('GET', path, { signal: AbortSignal.any([signal, opening]) }),
        )
        if (response.statusCode !== 200) {
          yield { type: 'ERROR', object: await jsonOf(response) }
          return
        }
        for await (const line of linesOf(response)) yield parseEvent(line)
      } catch (error) {
        signal.throwIfAborted()
        throw unreachable(error)
      }
    },
  }
}

/** Waits for the head of a watch, which a healthy server sends at once. */
async function begun(
  inMs: number,
  open: (signal: AbortSignal) => Promise<IncomingMessage>,
): Promise<IncomingMessage> {
  const opening = new AbortController()
  const timer = setTimeout(() => opening.abort(new Error('no head of a watch')), inMs)
  try {
    return await open(opening.signal)
  } finally {
    clearTimeout(timer)
  }
}

async function jsonOf(response: IncomingMessage): Promise<unknown> {
  const body = await boundedBody('Kubernetes', response, ANSWER_MAX)
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return null
  }
}

async function* linesOf(response: IncomingMessage): AsyncGenerator<string> {
  let held = ''
  response.setEncoding('utf8')
  for await (const chunk of response as AsyncIterable<string>) {
    held += chunk
    if (held.length > EVENT_MAX)
      throw new CofferdamError('protocol_violation', `Kubernetes: an event above ${EVENT_MAX} bytes.`)
    const lines = held.split('\n')
    held = lines.pop() ?? ''
    yield* lines.filter((line) => line !== '')
  }
}

function parseEvent(line: string): WatchEvent {
  const event = JSON.parse(line) as { type?: unknown; object?: unknown }
  return { type: typeof event.type === 'string' ? event.type : 'ERROR', object: event.object }
}
