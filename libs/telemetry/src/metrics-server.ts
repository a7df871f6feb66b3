/**
 * A small HTTP server for probes and scrapes, for a process without an HTTP server or with one that requires
 * keys:
 *
 *   /metrics   Prometheus text
 *   /healthz   200 while the process answers, even if Redis or Postgres are down: a restart would not help
 *   /readyz    200, or 503 with the reason from `notReady`
 *
 * Requires no keys, so bind it to loopback or to a network of probes and Prometheus. Metrics name no tenant.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface MetricsServerOptions {
  host: string
  /** 0 for any free port. */
  port: number
  /** `accept` is the request's Accept header. */
  metrics(accept: string | undefined): Promise<{ contentType: string; body: string }>
  /** Why the process is not ready, or null. */
  notReady(): string | null | Promise<string | null>
}

export interface MetricsServer extends AsyncDisposable {
  readonly port: number
}

/** A client must send its whole request within this time. Prometheus gives up after 10 s, too. */
const REQUEST_MS = 10_000

/** Starts listening. Rejects when the port is taken. */
export async function createMetricsServer(options: MetricsServerOptions): Promise<MetricsServer> {
  const server = createServer({ requestTimeout: REQUEST_MS, maxHeaderSize: 8192 }, (request, response) => {
    const path = (request.url ?? '').split('?', 1)[0] ?? ''
    answer(request, path, options, response).catch(() => response.destroy())
  })
  // Enough for probes and one or two scrapers.
  server.maxConnections = 64
  server.listen(options.port, options.host)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

async function answer(
  { method = '', headers }: IncomingMessage,
  path: string,
  options: MetricsServerOptions,
  response: ServerResponse,
): Promise<void> {
  const send = (status: number, body: string, contentType = 'text/plain; charset=utf-8') => {
    response.writeHead(status, { 'content-type': contentType, 'x-content-type-options': 'nosniff' })
    response.end(method === 'HEAD' ? undefined : body)
  }
  if (method !== 'GET' && method !== 'HEAD') return send(405, 'GET only\n')
  if (path === '/healthz') return send(200, 'ok\n')
  if (path === '/readyz') {
    const why = await options.notReady()
    return why === null ? send(200, 'ready\n') : send(503, `${why}\n`)
  }
  if (path !== '/metrics') return send(404, 'known: /metrics /healthz /readyz\n')
  const { contentType, body } = await options.metrics(headers.accept)
  return send(200, body, contentType)
}
