/** A small server for the client's tests that speaks the documented protocol, one handler per request. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface SeenRequest {
  method: string
  path: string
  headers: IncomingMessage['headers']
  body: unknown
}

export type Handler = (request: SeenRequest, response: ServerResponse) => void

export interface WireServer extends AsyncDisposable {
  baseUrl: string
  /** Requests in order of arrival. */
  seen: SeenRequest[]
}

/** Answers the n-th request with the n-th handler, and all further requests with the last one. */
export async function startWireServer(...handlers: [Handler, ...Handler[]]): Promise<WireServer> {
  const seen: SeenRequest[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString()
      const one = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body: text === '' ? undefined : (JSON.parse(text) as unknown),
      }
      seen.push(one)
      handlers[Math.min(seen.length, handlers.length) - 1]?.(one, response)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export const json =
  (status: number, body: unknown): Handler =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

/** Breaks the connection without an answer. */
export const hangUp: Handler = (_request, response) => void response.socket?.destroy()

/** Breaks the connection in the middle of the answer. */
export const breakOff: Handler = (_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1000 })
  response.write('{"execution_id":', () => response.socket?.destroy())
}

/** Sends events as SSE, then ends the answer or breaks it off. */
export const sse =
  (events: { id: string; event: unknown }[], end: 'end' | 'break' = 'end'): Handler =>
  (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const text = events
      .map(({ id, event }) => `id: ${id}\nevent: x\ndata: ${JSON.stringify(event)}\n\n`)
      .join('')
    response.write(`: \n\n${text}`, () => (end === 'end' ? response.end() : response.socket?.destroy()))
  }
