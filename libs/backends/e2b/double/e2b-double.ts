/**
 * A loopback server that stands in for E2B: the control API, and at the same origin envd and the code
 * interpreter of every sandbox, named by the headers `E2b-Sandbox-Id` and `E2b-Sandbox-Port` or by the host
 * name.
 */
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { listen } from '@cofferdam/backend-remote/double'
import { Control } from './control.ts'
import { happens, NO_FAULTS, type Faults } from './faults.ts'
import { fail, page, readJson, reply } from './json-http.ts'

/** Paths of envd that the service's clients cannot reach. */
const INTERNAL = /^\/(init|freeze|collapse|fsfreeze)\b/

const PROCESS_STREAMS = /^\/process\.Process\/(Start|Connect)\b/
const INPUT = '/process.Process/SendInput'
const ENVD_PORT = '49983'
const INTERPRETER_PORT = '49999'
const SECURED =
  "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing"

/** Paths whose answers stream for as long as something runs. */
const STREAMS = /^\/(process\.Process\/(Start|Connect)|filesystem\.Filesystem\/WatchDir|execute)\b/

export interface E2bDouble extends AsyncDisposable {
  /** Value for `E2B_API_URL` and `E2B_SANDBOX_URL`. */
  readonly origin: string
  readonly apiKey: string
  /** The running sandboxes. */
  running(): { id: string; metadata: Record<string, string> }[]
  /** Number of sandboxes ever created. */
  readonly created: number
  /** Requested paths, in order. */
  readonly requests: readonly string[]
  /** Sets the faults from now on. */
  fault(faults: Partial<Faults>): void
  /** Ends a sandbox as the service itself would. */
  end(id: string): Promise<void>
}

/** Starts the double on a loopback port; 0 picks any free one. */
export async function startE2bDouble(port = 0, apiKey = `e2b_${'0'.repeat(40)}`): Promise<E2bDouble> {
  const control = new Control(apiKey)
  const server = await listen(port, (request, response) => {
    answer(control, request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy()
      else fail(response, 500, error instanceof Error ? error.message : String(error))
    })
  })
  return {
    origin: `http://127.0.0.1:${server.port}`,
    apiKey,
    requests: server.requests,
    running: () => [...control.boxes.values()].map(({ id, metadata }) => ({ id, metadata })),
    get created() {
      return control.created
    },
    fault(faults) {
      control.faults = { ...control.faults, ...faults }
    },
    async end(id) {
      const box = control.boxes.get(id)
      if (box !== undefined) await control.end(box)
    },
    async [Symbol.asyncDispose]() {
      await control.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

async function answer(control: Control, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const target = targetOf(request)
  if (target !== null) return await toSandbox(control, target, request, response)
  // Not part of E2B's API: sets the double's faults.
  if (request.url === '/_double/faults') {
    control.faults = { ...NO_FAULTS, ...((await readJson(request)) as Partial<Faults>) }
    return reply(response, 200, control.faults)
  }
  await control.handle(request, response)
}

function targetOf({ headers }: IncomingMessage): { id: string; port: string } | null {
  const [, port, id] = /^(\d+)-([a-z0-9]{20})\./.exec(headers.host ?? '') ?? []
  if (port !== undefined && id !== undefined) return { id, port }
  const [byHeader, atPort] = [headers['e2b-sandbox-id'], headers['e2b-sandbox-port']]
  return typeof byHeader === 'string' && typeof atPort === 'string' ? { id: byHeader, port: atPort } : null
}

async function toSandbox(
  control: Control,
  { id, port }: { id: string; port: string },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const box = control.boxes.get(id)
  if (box === undefined || INTERNAL.test(request.url ?? ''))
    return reply(response, 502, { sandboxId: id, message: 'The sandbox was not found', code: 502 })
  const gate = box.trafficToken !== null && port !== ENVD_PORT ? box.trafficToken : null
  if (gate !== null && request.headers['e2b-traffic-access-token'] !== gate)
    return reply(response, 403, { sandboxId: id, message: SECURED, code: 403 })
  const socketPath = box.machine.ports.get(port)
  if (socketPath === undefined)
    return reply(response, 502, { sandboxId: id, message: 'The port is not open', port, code: 502 })
  if (happens(control.faults, 'throttle_sandboxes')) return control.throttle(response)
  if (port === INTERPRETER_PORT && request.url === '/health' && happens(control.faults, 'late_interpreters'))
    return fail(response, 503, 'not ready')
  if (PROCESS_STREAMS.test(request.url ?? '') && happens(control.faults, 'refuse_streams')) {
    request.resume()
    return refuseStream(response)
  }
  if (request.url === INPUT && happens(control.faults, 'page_inputs')) {
    request.resume()
    return page(response)
  }
  const upstream = httpRequest({
    socketPath,
    method: request.method,
    path: request.url,
    headers: request.headers,
  })
  // A stream's program outlives its reader, but the request to envd ends.
  response.once('close', () => upstream.destroy())
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    upstream.once('response', resolve)
    upstream.once('error', reject)
  })
  const [incoming] = await Promise.all([answered, pipeline(request, upstream)])
  if (request.url === INPUT && happens(control.faults, 'fail_inputs')) {
    incoming.resume()
    return fail(response, 500, 'internal error')
  }
  response.writeHead(incoming.statusCode ?? 502, incoming.headers)
  response.flushHeaders()
  const isStream = STREAMS.test(request.url ?? '')
  const cut = isStream ? control.faults.cut_stream_after : null
  if (cut !== null) control.faults.cut_stream_after = null
  const pieces = inPieces(isStream ? control.faults.piece_bytes : 0)
  await pipeline(incoming, pieces, cutAfter(cut, response), response).catch(() => response.destroy())
}

/** A stream whose only message is its last one, with an error. */
function refuseStream(response: ServerResponse): void {
  const last = Buffer.from('{"error": {"code": "resource_exhausted", "message": "too many requests"}}')
  const head = Buffer.alloc(5)
  head.writeUInt8(2)
  head.writeUInt32BE(last.length, 1)
  response.writeHead(200, { 'Content-Type': 'application/connect+json' }).end(Buffer.concat([head, last]))
}

/** Sends pieces of this size, to split characters and messages; 0 changes nothing. */
function inPieces(bytes: number): Transform {
  return new Transform({
    async transform(chunk: Buffer, _encoding, done) {
      for (let at = 0; at < chunk.length; at += bytes || chunk.length) {
        this.push(chunk.subarray(at, at + (bytes || chunk.length)))
        // Written in one go, the pieces would arrive together.
        if (bytes > 0) await new Promise((resolve) => setImmediate(resolve))
      }
      done()
    },
  })
}

/** Passes this many bytes and then breaks the connection. */
function cutAfter(bytes: number | null, response: ServerResponse): Transform {
  let left = bytes ?? Number.POSITIVE_INFINITY
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (chunk.length <= left) {
        left -= chunk.length
        return done(null, chunk)
      }
      response.write(chunk.subarray(0, left))
      done(new Error('cut on purpose'))
    },
  })
}
