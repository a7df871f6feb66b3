/** The few calls of the Kubernetes API that a backend needs, over Node's own client: JSON in, JSON out, and watches. */
import { readFile } from 'node:fs/promises'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { CofferdamError } from '@cofferdam/contract'
import { boundedBody, retryAfterMs } from '@cofferdam/backend-remote'
import type { KubernetesConfig } from './config.ts'

/** A list of a thousand claims is half of this. */
const ANSWER_MAX = 16 * 1024 * 1024
/** One event of a watch holds one object. */
const EVENT_MAX = 1024 * 1024
/** Of a server that is busy; a claim that is ready meanwhile is heard of by the next list. */
const HEAD_MS = 5_000

/** Errors of a connection that there never was. */
const NOT_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'])

/** The API server has heard nothing of a call. */
export class NothingSent extends CofferdamError {}

export interface KubeAnswer {
  status: number
  body: unknown
  /** What `Retry-After` says; null where it says nothing, or a date. */
  retryAfterMs: number | null
}

export interface WatchEvent {
  type: string
  object: unknown
}

export interface KubeApi {
  /** Resolves with whatever status; rejects when there was no answer, with NothingSent when there was no question. */
  call(method: string, path: string, options?: CallOptions): Promise<KubeAnswer>
  /** Events until the server ends the watch or `signal` aborts. Throws for an answer that is no watch. */
  watch(path: string, signal: AbortSignal): AsyncGenerator<WatchEvent>
}

interface CallOptions {
  body?: unknown
  /** Default application/json; a patch needs its own (the API server's default for a patch is JSON Patch). */
  contentType?: string
  signal?: AbortSignal | null
}

/** Creates a client for the API server of the configuration. */
export function createKubeApi(config: KubernetesConfig): KubeApi {
  const isHttps = config.api_server.startsWith('https:')
  // All paths are below its own, which a gateway for several clusters has.
  const server = new URL(config.api_server)
  if (!server.pathname.endsWith('/')) server.pathname += '/'

  async function send(
    method: string,
    path: string,
    { body, contentType = 'application/json', signal }: CallOptions & { signal: AbortSignal },
  ): Promise<IncomingMessage> {
    const [token, ca] = await Promise.all([
      config.token_file === null ? null : secretIn(config.token_file),
      config.ca_file === null || !isHttps ? null : secretIn(config.ca_file),
    ])
    const text = body === undefined ? '' : JSON.stringify(body)
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const outgoing = (isHttps ? httpsRequest : httpRequest)(
      new URL(`.${path}`, server),
      {
        method,
        signal,
        ...(ca === null ? {} : { ca }),
        headers: {
          Accept: 'application/json',
          ...(token === null ? {} : { Authorization: `Bearer ${token.trim()}` }),
          ...(text === '' ? {} : { 'Content-Type': contentType, 'Content-Length': Buffer.byteLength(text) }),
        },
      },
      resolve,
    )
    outgoing.once('error', reject)
    outgoing.end(text)
    return await promise
  }

  function unreachable(error: unknown): CofferdamError {
    if (error instanceof CofferdamError) return error
    const message = `Kubernetes: ${config.api_server} does not answer.`
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
        // Nothing was done. The token may have been replaced after it was read: once more, with what the file holds now.
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

/** A watch whose head has come: a server says at once that it watches, however long it then has nothing to tell. */
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

async function secretIn(file: string): Promise<string> {
  return await readFile(file, 'utf8').catch((error: unknown) => {
    throw new CofferdamError('backend_unavailable', `Kubernetes: ${file} cannot be read.`, { cause: error })
  })
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
