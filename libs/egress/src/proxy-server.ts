/**
 * The HTTP proxy on the connections of one execution. Node's HTTP server parses them. It never listens, but
 * is given each connection. Its header timeout works only for a listening server, so this file has its own.
 */
import { createServer, ServerResponse, type IncomingMessage, type Server } from 'node:http'
import type { Duplex } from 'node:stream'
import type { EgressConfig } from './config.ts'
import type { Dial } from './dial.ts'
import { forwardRequest, requestTarget, tunnelledTarget } from './forward-request.ts'
import { parseAuthority, type Target } from './host.ts'
import type { Ledger } from './ledger.ts'
import { PACKAGE_HOST, type PackageProxy } from './packages/create-package-proxy.ts'
import { Refused, sendRefusal } from './refusal.ts'
import { firstWords, joinTunnel, nameGate } from './tunnel.ts'

export interface ProxyDeps {
  config: EgressConfig
  dial: Dial
  ledger: Ledger
  packages: PackageProxy
  /** Under an allow-list, traffic inside a CONNECT must ask for its host, by TLS server name or Host. */
  checkServerName: boolean
  signal: AbortSignal
}

export type AcceptConnection = (connection: Duplex) => void

export function createProxy(deps: ProxyDeps): AcceptConnection {
  const { config, ledger, signal } = deps
  const connections = new Set<Duplex>()
  /** Connections above the bound. They are answered once, with the reason. */
  const tooMany = new WeakSet<Duplex>()
  /** Tunnels to the package host, whose requests are in origin form. */
  const packageTunnels = new WeakSet<Duplex>()
  /**
   * Tunnels with plain HTTP inside. `opened`: the CONNECT's connection to the origin, which the first request
   * uses.
   */
  const httpTunnels = new WeakMap<Duplex, { target: Target; opened: Duplex | null }>()
  /** Pending answers of a connection, because requests may be pipelined. */
  const owed = new WeakMap<Duplex, number>()
  const headerClocks = new WeakMap<Duplex, NodeJS.Timeout>()

  const awaitHead = (connection: Duplex): void => {
    clearTimeout(headerClocks.get(connection))
    if (connection.destroyed) return
    const clock = setTimeout(() => connection.destroy(), config.header_timeout_ms)
    headerClocks.set(connection, clock)
  }

  const refuseTooMany = (connection: Duplex): void => {
    if (tooMany.has(connection))
      throw new Refused(
        'the proxy',
        'connection_limit',
        `${config.max_connections} connections are open already`,
      )
  }

  const answerFailure = (error: unknown, response: ServerResponse, url: string): void => {
    const refused =
      error instanceof Refused
        ? error
        : new Refused(url.slice(0, 128), 'unreachable', 'the request could not be carried out', error)
    if (!signal.aborted) ledger.refused(refused)
    sendRefusal(response, refused)
  }

  const onRequest = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const connection: Duplex = request.socket
    clearTimeout(headerClocks.get(connection))
    owed.set(connection, (owed.get(connection) ?? 0) + 1)
    response.once('close', () => {
      const left = (owed.get(connection) ?? 1) - 1
      owed.set(connection, left)
      // Start the header timer only if no answer is pending. While one is, the next head may already be here
      // (pipelining), and its answer may take long.
      if (left === 0) awaitHead(connection)
    })
    try {
      refuseTooMany(connection)
      if (packageTunnels.has(connection)) return await deps.packages(request, response, request.url ?? '/')
      const tunnel = httpTunnels.get(connection)
      if (tunnel !== undefined) {
        const wanted = tunnelledTarget(request, tunnel.target)
        const { opened } = tunnel
        tunnel.opened = null
        const isFresh = opened !== null && !opened.destroyed && !opened.readableEnded
        return await forwardRequest(
          request,
          response,
          wanted,
          isFresh ? async () => opened : deps.dial,
          signal,
        )
      }
      const wanted = requestTarget(request.url ?? '')
      if (isPackageHost(wanted.target)) return await deps.packages(request, response, wanted.path)
      await forwardRequest(request, response, wanted, deps.dial, signal)
    } catch (error) {
      answerFailure(error, response, request.url ?? '')
    }
  }

  const onConnect = async (request: IncomingMessage, connection: Duplex, head: Buffer): Promise<void> => {
    clearTimeout(headerClocks.get(connection))
    // A tunnel after a pending answer would mix the two. No client does that.
    if ((owed.get(connection) ?? 0) > 0) {
      connection.destroy()
      return
    }
    if (head.length > 0) connection.unshift(head)
    const response = new ServerResponse(request)
    response.assignSocket(request.socket)
    response.once('finish', () => {
      response.detachSocket(request.socket)
      connection.end()
      // Keep reading, to notice when the program ends its side. If it does not, the timer closes the
      // connection.
      connection.resume()
      awaitHead(connection)
    })
    const given = new AbortController()
    const giveUp = (): void => given.abort()
    connection.once('close', giveUp)
    try {
      refuseTooMany(connection)
      const target = parseAuthority(request.url ?? '', 443)
      if (target === null)
        throw new Refused((request.url ?? '').slice(0, 128), 'invalid_request', 'that is no plain host:port')
      if (isPackageHost(target)) {
        response.detachSocket(request.socket)
        connection.write(ESTABLISHED)
        packageTunnels.add(connection)
        awaitHead(connection)
        server.emit('connection', connection)
        return
      }
      const origin = await deps.dial(target, AbortSignal.any([signal, given.signal]))
      response.detachSocket(request.socket)
      connection.write(ESTABLISHED)
      if (!deps.checkServerName) return await joinTunnel(connection, origin, null)
      const { protocol, said } = await firstWords(connection, origin)
      if (protocol !== 'http') return await joinTunnel(connection, origin, nameGate(target, said))
      httpTunnels.set(connection, { target, opened: origin })
      connection.once('close', () => origin.destroy())
      connection.unshift(said)
      awaitHead(connection)
      server.emit('connection', connection)
    } catch (error) {
      if (response.socket === null) {
        if (error instanceof Refused) ledger.refused(error)
        connection.destroy()
      } else answerFailure(error, response, request.url ?? '')
    }
  }

  const server: Server = createServer((request, response) => void onRequest(request, response))
  server.on('connect', (request, connection, head) => void onConnect(request, connection, head))
  server.on('clientError', (_error, connection) => {
    if (connection.writable) connection.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n')
    else connection.destroy()
  })
  signal.addEventListener('abort', () => connections.forEach((connection) => connection.destroy()), {
    once: true,
  })

  return (connection) => {
    connection.on('error', () => undefined)
    // The server, two pipelines and this file listen: a fixed number, but above Node's warning level of 10.
    connection.setMaxListeners(32)
    // Above twice the bound, connections are closed without a reason, because answering them costs memory
    // too.
    if (signal.aborted || connections.size >= 2 * config.max_connections) {
      connection.destroy()
      return
    }
    if (connections.size >= config.max_connections) tooMany.add(connection)
    connections.add(connection)
    connection.once('close', () => {
      connections.delete(connection)
      clearTimeout(headerClocks.get(connection))
    })
    awaitHead(connection)
    server.emit('connection', connection)
  }
}

const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'

const isPackageHost = ({ host, port }: Target): boolean => host.text === PACKAGE_HOST && port === 80
