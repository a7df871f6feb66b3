/** Shared by both mirror doubles: a loopback HTTP server, the files of a folder, the command line. */
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

export interface MirrorServer extends AsyncDisposable {
  port: number
  /** Requested paths, in order. */
  requests: string[]
}

/** PEM, for clients that send their token only over TLS. */
export interface ServerTls {
  key: string
  cert: string
}

export async function listen(port: number, answer: RequestListener, tls?: ServerTls): Promise<MirrorServer> {
  const requests: string[] = []
  const noted: RequestListener = (request, response) => {
    requests.push(request.url ?? '')
    answer(request, response)
  }
  const server = tls === undefined ? createServer(noted) : createTlsServer(tls, noted)
  const { promise, resolve, reject } = Promise.withResolvers<undefined>()
  server.once('error', reject).listen(port, '127.0.0.1', () => resolve(undefined))
  await promise
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((done) => server.close(done))
      server.closeAllConnections()
      await closed
    },
  }
}

/** Regular files of `folder` with one of the endings, by name. */
export function filesOf(folder: string, endings: readonly string[]): Map<string, Buffer> {
  const names = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile() && endings.some((ending) => entry.name.endsWith(ending)))
    .map((entry) => entry.name)
    .toSorted()
  return new Map(names.map((name) => [name, readFileSync(join(folder, name))]))
}

/** `--port N --dir FOLDER`; port 0 picks any free one. */
export function mirrorArguments(): { port: number; dir: string } {
  const { values } = parseArgs({
    options: { port: { type: 'string', default: '0' }, dir: { type: 'string' } },
  })
  if (values.dir === undefined || !/^\d{1,5}$/.test(values.port))
    throw new Error('expected --dir FOLDER and perhaps --port N')
  return { port: Number(values.port), dir: values.dir }
}
