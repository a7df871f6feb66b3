/**
 * Connects to origins. The order matters: name and port are judged before the name is resolved, because a
 * lookup alone can carry data out. Every address is judged before anything is connected, and the connection
 * goes to those addresses without resolving again.
 */
import { unlessAborted, type Network } from '@cofferdam/contract'
import ipaddr from 'ipaddr.js'
import { connect, type LookupFunction, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { EgressConfig } from './config.ts'
import type { Target } from './host.ts'
import { judgeAddress, type AddressRules } from './judge-address.ts'
import type { Ledger } from './ledger.ts'
import { refusedByNetwork } from './network-rules.ts'
import { Refused } from './refusal.ts'
import type { Resolve } from './resolve.ts'

/** Addresses of one name that are tried. A hostile answer can have thousands. */
const MAX_ADDRESSES = 16

export interface DialDeps {
  network: Network
  config: EgressConfig
  addresses: AddressRules
  resolve: Resolve
  ledger: Ledger
}

/** Connects to a target that every rule allows. Rejects with `Refused`. */
export type Dial = (target: Target, signal: AbortSignal) => Promise<Duplex>

export function createDial({ network, config, addresses, resolve, ledger }: DialDeps): Dial {
  const names = new Set<string>()
  let open = 0

  const refuseEarly = (target: Target): void => {
    if (ledger.isExhausted)
      throw new Refused(target.text, 'byte_limit', `the execution has spent its ${config.max_bytes} bytes`)
    const why = refusedByNetwork(network, config.ports, target)
    if (why !== null) throw new Refused(target.text, 'network', why)
    // Requests of one connection may be pipelined, so connections to origins have their own bound.
    if (open >= config.max_connections)
      throw new Refused(target.text, 'connection_limit', `${open} connections are open already`)
  }

  const lookUp = async ({ host, text }: Target, signal: AbortSignal): Promise<readonly string[]> => {
    if (host.kind === 'address') return [host.address.toString()]
    if (!names.has(host.text) && names.size >= config.max_names)
      throw new Refused(text, 'name_limit', `${names.size} names were resolved for this execution already`)
    names.add(host.text)
    const found = await resolve(host.text, signal).catch((cause: unknown) => {
      throw new Refused(text, 'unresolvable', 'the name could not be resolved', cause)
    })
    if (found.length === 0) throw new Refused(text, 'unresolvable', 'the name has no address')
    return found
  }

  /**
   * One bad address refuses the name, because a mix of public and private answers looks like rebinding.
   * Returns the text of the judged addresses, so that the kernel cannot read them differently.
   */
  const judge = (target: Target, found: readonly string[]): string[] =>
    found.map((address) => {
      const parsed = ipaddr.isValid(address) ? ipaddr.parse(address) : null
      const why = parsed === null ? 'no address' : judgeAddress(parsed, target.port, addresses)
      if (parsed !== null && why === null) return parsed.toString()
      const named =
        target.host.kind === 'name' ? `the name resolves to ${address}, which is ${why}` : `it is ${why}`
      throw new Refused(target.text, 'address', named)
    })

  return async (target, signal) => {
    refuseEarly(target)
    open += 1
    const deadline = AbortSignal.timeout(config.connect_timeout_ms)
    const ended = AbortSignal.any([signal, deadline])
    try {
      // A resolver may ignore its signal.
      const found = await unlessAborted(lookUp(target, ended), ended)
      const judged = judge(target, found.slice(0, MAX_ADDRESSES))
      if (!ledger.reached(target.text))
        throw new Refused(
          target.text,
          'name_limit',
          `${ledger.hosts.length} hosts were reached by this execution already`,
        )
      const socket = await connected(target, judged, ended)
      const stream = meteredStream(socket, target.text, ledger, config.idle_timeout_ms)
      stream.once('close', () => (open -= 1))
      return stream
    } catch (error) {
      open -= 1
      if (deadline.aborted)
        throw new Refused(
          target.text,
          'timeout',
          `no connection within ${config.connect_timeout_ms} ms`,
          error,
        )
      if (error instanceof Refused) throw error
      throw new Refused(target.text, 'unreachable', 'the connection was not made', error)
    }
  }
}

/** Connects with Node's happy eyeballs. Its `lookup` option returns only the judged addresses. */
async function connected(target: Target, judged: readonly string[], signal: AbortSignal): Promise<Socket> {
  const answers = judged.map((address) => ({
    address,
    family: ipaddr.parse(address).kind() === 'ipv6' ? 6 : 4,
  }))
  const lookup: LookupFunction = (_name, _options, done) => done(null, answers)
  const [only] = judged
  const host = judged.length === 1 && only !== undefined ? only : target.host.text
  const socket = connect({
    host,
    port: target.port,
    lookup,
    autoSelectFamily: true,
    noDelay: true,
    allowHalfOpen: true,
  })
  // This listener stays. Between the end of this function and the caller's own listener, an error without any
  // listener would end the worker.
  socket.on('error', () => undefined)
  const { promise, resolve, reject } = Promise.withResolvers<undefined>()
  const abort = (): void => reject(signal.reason as Error)
  socket.once('connect', () => resolve(undefined)).once('error', reject)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  try {
    await promise
    return socket
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    signal.removeEventListener('abort', abort)
    socket.off('error', reject)
  }
}

/**
 * The connection to an origin as a stream that ends when idle. Every byte in either direction is counted
 * before it passes, up to the execution's bound. Errors are `Refused`.
 */
function meteredStream(socket: Socket, target: string, ledger: Ledger, idleMs: number): Duplex {
  const spent = (): Refused => new Refused(target, 'byte_limit', 'the execution has spent its bytes')
  const stream = new Duplex({
    allowHalfOpen: true,
    read: () => socket.resume(),
    write(chunk: Buffer, _encoding, done) {
      idle.refresh()
      if (ledger.passes('sent', chunk.length)) socket.write(chunk, done)
      else done(spent())
    },
    final: (done) => socket.end(done),
    destroy(error, done) {
      clearTimeout(idle)
      socket.destroy()
      done(error)
    },
  })
  // The user of the stream stops listening when it is done. A later error must not end the worker.
  stream.on('error', () => undefined)
  const idle = setTimeout(() => {
    stream.destroy(new Refused(target, 'timeout', `nothing moved for ${idleMs} ms`))
  }, idleMs)
  socket.on('data', (chunk: Buffer) => {
    idle.refresh()
    if (!ledger.passes('received', chunk.length)) stream.destroy(spent())
    else if (!stream.push(chunk)) socket.pause()
  })
  socket.once('end', () => stream.push(null))
  socket.once('error', (cause) => {
    stream.destroy(new Refused(target, 'unreachable', 'the connection broke', cause))
  })
  socket.once('close', () => stream.destroy())
  return stream
}
