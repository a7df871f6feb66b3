/** Servers on this host: one that programs may reach, and one on every address that they may not. */
import { createSocket } from 'node:dgram'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'

/** The answer of the forbidden servers. No program may ever read it. */
export const FORBIDDEN = 'forbidden origin'

export interface Origins extends AsyncDisposable {
  /** Port of the server on 127.0.0.1 that may be reached. */
  port: number
  /** Every address of this host with a forbidden server. */
  forbidden: { address: string; port: number }[]
  /** Port of the forbidden server on 127.0.0.1. */
  forbiddenPort: number
  /** Connections, datagrams and requests that reached a forbidden one. */
  intruders(): number
  /** `METHOD url host` of each request that reached the allowed one. */
  hits: string[]
  /** Connections that the allowed one holds now. */
  open: Set<Socket>
  /** Bytes of request bodies that the allowed one took. */
  taken(): number
}

const BLOCK = Buffer.alloc(1 << 20, 'x')

/** Serves `/redirect?to=<url>`, `/bytes?n=<MiB>` and `/take` (counts a body). Everything else says hello. */
export async function startOrigins(): Promise<Origins> {
  let intruders = 0
  let taken = 0
  const hits: string[] = []
  const answer: RequestListener = (request, response) => {
    hits.push(`${request.method} ${request.url} ${request.headers.host}`)
    const url = new URL(request.url ?? '/', 'http://origin')
    response.on('error', () => undefined)
    if (url.pathname === '/redirect') {
      response.writeHead(302, { location: url.searchParams.get('to') ?? '/' }).end()
    } else if (url.pathname === '/bytes') {
      let left = Number(url.searchParams.get('n'))
      response.writeHead(200, { 'content-length': left * BLOCK.length })
      const send = (): void => {
        while (left > 0) {
          left -= 1
          if (!response.write(BLOCK)) return void response.once('drain', send)
        }
        response.end()
      }
      send()
    } else {
      request.on('data', (chunk: Buffer) => (taken += chunk.length))
      request.on('end', () => response.end('hello'))
    }
  }
  const open = new Set<Socket>()
  const servers: Server[] = []
  const listen = async (server: Server, host: string): Promise<number> => {
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, host, resolve))
    servers.push(server)
    return (server.address() as AddressInfo).port
  }
  const allowed = createHttpServer(answer)
  allowed.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.on('error', () => undefined).once('close', () => open.delete(socket))
  })
  const port = await listen(allowed, '127.0.0.1')

  const forbidden: Origins['forbidden'] = []
  const receivers: ReturnType<typeof createSocket>[] = []
  const addresses = Object.values(networkInterfaces()).flatMap((list) =>
    (list ?? []).filter((a) => !a.scopeid),
  )
  for (const { address, family } of addresses) {
    const server = createServer((socket) => {
      intruders += 1
      socket.on('error', () => undefined)
      socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${FORBIDDEN.length}\r\n\r\n${FORBIDDEN}`)
    })
    const at = await listen(server, address)
    forbidden.push({ address, port: at })
    const receiver = createSocket(family === 'IPv6' ? 'udp6' : 'udp4').on('message', () => void intruders++)
    await new Promise<void>((resolve) => receiver.bind(at, address, resolve))
    receivers.push(receiver)
  }
  return {
    port,
    forbidden,
    forbiddenPort: forbidden.find(({ address }) => address === '127.0.0.1')?.port ?? 0,
    intruders: () => intruders,
    hits,
    open,
    taken: () => taken,
    async [Symbol.asyncDispose]() {
      for (const receiver of receivers) receiver.close()
      for (const socket of open) socket.destroy()
      await Promise.all(servers.map((server) => new Promise((done) => server.close(done))))
    },
  }
}
