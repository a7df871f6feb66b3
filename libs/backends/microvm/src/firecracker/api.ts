/**
 * Client of Firecracker's API: HTTP/1.1 over a unix socket, one request at a time. Any answer but the
 * documented one throws `sandbox_open_failed`. Messages of the VMM are quoted for people and never
 * interpreted.
 */
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import type { ApiCall } from './swagger.ts'

/** Largest answer. The API answers with an empty 204, a version, or a fault message. */
const ANSWER_BYTES = 65_536
const FAULT_LENGTH = 500

export interface FirecrackerApi {
  /** The answer's JSON, or null without a body. */
  call(call: ApiCall, timeoutMs: number): Promise<unknown>
  close(): void
}

/** Connects as soon as somebody listens. A socket file alone says nothing: it may be a stale one. */
export async function connectApi(
  path: string,
  { withinMs, signal }: { withinMs: number; signal: AbortSignal },
): Promise<FirecrackerApi> {
  const until = performance.now() + withinMs
  for (;;) {
    signal.throwIfAborted()
    const failed = await reaches(path)
    if (failed === null) return createApi(path, signal)
    if (performance.now() > until)
      throw new CofferdamError(
        'sandbox_open_failed',
        `Firecracker’s API did not listen within ${withinMs} ms (${failed}).`,
      )
    await sleep(1)
  }
}

/** Null if somebody listens, else why not. */
const reaches = (path: string): Promise<string | null> =>
  new Promise((resolve) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(null)
    })
    socket.once('error', (error: NodeJS.ErrnoException) => {
      socket.destroy()
      resolve(error.code ?? error.message)
    })
  })

function createApi(socketPath: string, signal: AbortSignal): FirecrackerApi {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  return {
    async call({ method, path, body }, timeoutMs) {
      const what = `${method} ${path}`
      const text = body === null ? '' : JSON.stringify(body)
      const answer = await exchange({ agent, socketPath, method, path, text, timeoutMs, signal }).catch(
        (error: unknown) => {
          signal.throwIfAborted()
          throw new CofferdamError(
            'sandbox_open_failed',
            `Firecracker did not answer ${what}: ${said(error)}.`,
            {
              cause: error,
            },
          )
        },
      )
      const wanted = method === 'GET' ? 200 : 204
      if (answer.status === wanted) return method === 'GET' ? parsed(answer.text, what) : null
      throw new CofferdamError(
        'sandbox_open_failed',
        `Firecracker answered ${answer.status} to ${what}: ${faultOf(answer.text)}`,
      )
    },
    close: () => agent.destroy(),
  }
}

interface Exchange {
  agent: Agent
  socketPath: string
  method: string
  path: string
  text: string
  timeoutMs: number
  signal: AbortSignal
}

function exchange(options: Exchange): Promise<{ status: number; text: string }> {
  const { agent, socketPath, method, path, text, timeoutMs, signal } = options
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  // Always send a length, because Firecracker refuses a chunked body.
  const headers = {
    accept: 'application/json',
    ...(text === ''
      ? {}
      : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }),
  }
  const call = request({ agent, socketPath, method, path, headers, signal: limit }, (answer) => {
    let received = ''
    answer.setEncoding('utf8')
    answer.on('data', (chunk: string) => {
      received += chunk
      if (received.length > ANSWER_BYTES) answer.destroy(new Error('the answer is too long'))
    })
    answer.once('error', reject)
    answer.once('end', () => resolve({ status: answer.statusCode ?? 0, text: received }))
  })
  call.once('error', reject)
  call.end(text)
  return promise
}

function parsed(text: string, what: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new CofferdamError('sandbox_open_failed', `Firecracker answered ${what} with what is not JSON.`, {
      cause,
    })
  }
}

/** Message of an error answer (`definitions.Error` in the swagger), or the whole text if it is not one. */
function faultOf(text: string): string {
  let message: unknown = text
  try {
    message = (JSON.parse(text) as { fault_message?: unknown }).fault_message ?? text
  } catch {
    // Not JSON: keep the whole text.
  }
  return typeof message === 'string' ? message.slice(0, FAULT_LENGTH) : 'a fault without a message'
}

const said = (error: unknown): string =>
  error instanceof Error
    ? error.name === 'TimeoutError' || (error.cause instanceof Error && error.cause.name === 'TimeoutError')
      ? 'it took too long'
      : error.message
    : String(error)
