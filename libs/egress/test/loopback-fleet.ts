/**
 * Real sockets for the tests: origins on loopback, and a TCP port whose connections go to `accept`, like
 * those of the guest agent.
 */
import { createServer, type RequestListener } from 'node:http'
import {
  connect,
  createServer as createTcpServer,
  type AddressInfo,
  type Server,
  type Socket,
} from 'node:net'
import {
  createEgress,
  egressConfigSchema,
  type ExecutionEgress,
  type OpenEgress,
  type Resolve,
} from '@cofferdam/egress'
import type { z } from 'zod'

export interface Listening extends AsyncDisposable {
  port: number
}

async function listening(server: Server, host = '127.0.0.1'): Promise<Listening & { sockets: Set<Socket> }> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket))
  })
  await new Promise<void>((done) => server.listen(0, host, done))
  return {
    port: (server.address() as AddressInfo).port,
    sockets,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((done) => server.close(done))
      sockets.forEach((socket) => socket.destroy())
      await closed
    },
  }
}

/** An HTTP origin. `hits` are the requests that arrived. */
export async function startOrigin(answer: RequestListener): Promise<Listening & { hits: string[] }> {
  const hits: string[] = []
  const server = createServer((request, response) => {
    hits.push(`${request.method} ${request.url} host=${request.headers.host}`)
    answer(request, response)
  })
  return Object.assign(await listening(server), { hits })
}

/** A TCP origin that passes each connection to `take`. */
export const startTcpOrigin = (take: (socket: Socket) => void): Promise<Listening> =>
  listening(createTcpServer({ allowHalfOpen: true }, take))

export interface Bridge extends AsyncDisposable {
  /** The value for HTTP_PROXY. */
  url: string
  port: number
  egress: ExecutionEgress
}

export interface BridgeOptions extends Partial<OpenEgress> {
  config?: z.input<typeof egressConfigSchema>
  resolve?: Resolve
  ownAddresses?: () => readonly string[]
}

/** One execution's egress behind a TCP port. By default names resolve to 127.0.0.1. */
export async function startBridge(options: BridgeOptions = {}): Promise<Bridge> {
  const { config, resolve = () => Promise.resolve(['127.0.0.1']), ownAddresses, ...execution } = options
  const worker = createEgress({
    config: egressConfigSchema.parse(config ?? {}),
    resolve,
    ...(ownAddresses === undefined ? {} : { ownAddresses }),
  })
  const egress = worker.open({ network: 'public', packages: null, ...execution })
  const server = await listening(createTcpServer({ allowHalfOpen: true }, (socket) => egress.accept(socket)))
  return {
    url: `http://127.0.0.1:${server.port}`,
    port: server.port,
    egress,
    async [Symbol.asyncDispose]() {
      await worker[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
    },
  }
}

/** Sends `text` unchanged and resolves with everything that comes back until the connection ends. */
export async function sendRaw(port: number, text: string | Uint8Array): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', () => undefined)
  socket.write(text)
  await new Promise((done) => {
    socket.once('end', done).once('close', done)
  })
  socket.destroy()
  return Buffer.concat(chunks).toString()
}

/** Sends one plain GET through the proxy and closes the connection. */
export const getRaw = (port: number, url: string, headers = ''): Promise<string> =>
  sendRaw(port, `GET ${url} HTTP/1.1\r\nHost: whatever\r\n${headers}Connection: close\r\n\r\n`)

/** Opens a tunnel. Resolves with the head of the answer and the socket. */
export async function openTunnel(port: number, target: string): Promise<{ head: string; socket: Socket }> {
  const socket = connect({ port, host: '127.0.0.1' })
  socket.on('error', () => undefined)
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
  const chunk = await new Promise<Buffer>((done) => {
    socket.once('data', done).once('close', () => done(Buffer.alloc(0)))
  })
  return { head: chunk.toString(), socket }
}

/** Polls until `holds`. Fails after 20 seconds with the name of what it waited for. */
export async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = Date.now() + 20_000
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`)
    await new Promise((done) => setTimeout(done, 5))
  }
}
