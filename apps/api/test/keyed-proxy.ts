/** A proxy on loopback that adds an API key, for programs that cannot send one. */
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface KeyedProxy extends AsyncDisposable {
  url: string
}

/** Passes everything on to `target` unchanged, `Host` included, and adds `headers`. */
export async function startKeyedProxy(target: string, headers: Record<string, string>): Promise<KeyedProxy> {
  const { hostname, port, pathname } = new URL(target)
  const server = createServer((received, response) => {
    const sent = request(
      {
        hostname,
        port,
        path: pathname,
        method: received.method,
        headers: { ...received.headers, ...headers },
        // No keep-alive: the target could close an idle connection just as the next request is sent on it.
        agent: false,
      },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
      },
    )
    sent.on('error', () => response.destroy())
    response.on('close', () => sent.destroy())
    received.pipe(sent)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${pathname}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
