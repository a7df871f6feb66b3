/**
 * The worker's end of the program's connections: each is a Duplex whose far end is the program. agent/…/tunnel.py has the
 * frames and the states.
 *
 * All of it may be forged. Ids go up by one, so an id is either the next one, one that was there, or a violation, and
 * nothing has to be remembered of those that are gone. A place is free again when its Duplex is destroyed, not when the
 * guest says so: at most 64 windows of bytes wait here.
 */
import type { Duplex, Writable } from 'node:stream'
import { violation } from './protocol.ts'
import { Connection, type Lane } from './tunnel-connection.ts'

/** Where programs find the proxy: on 127.0.0.1 of their sandbox. */
export const PROXY_PORT = 3128

/** tunnel.py has the same number and says where it comes from. */
const CONNECTIONS_MAX = 64
/** Answers that a guest provokes and does not read; beyond it nothing more is read from the guest. */
const UNREAD_MAX = 256 * 1024

export interface Tunnel {
  /** Connections that begin from now on go to `onConnection`, until `end`. */
  serve(onConnection: (connection: Duplex) => void): void
  /** Takes N, D, W or Q. Throws `protocol_violation`. True: wait for `drain` of the writable before the next frame. */
  take(type: 'N' | 'D' | 'W' | 'Q', payload: Buffer): boolean
  /** Nobody waits for the run any more: destroys all connections, and lets the guest talk until `end`. */
  discard(): void
  /** The run is over, or the session: destroys all connections. The guest is told nothing. */
  end(): void
}

/** One per session: ids go on over its runs. */
export function createTunnel(writable: Writable): Tunnel {
  const open = new Map<number, Connection>()
  const waiting = new Set<Connection>()
  let last = 0
  let handOver: ((connection: Duplex) => void) | 'discard' | null = null

  const lane: Lane<Connection> = {
    send: (frame) => writable.write(frame),
    isFull: () => writable.writableNeedDrain,
    wait: (connection) => waiting.add(connection),
    forget: (id, connection) => {
      waiting.delete(connection)
      open.delete(id)
    },
  }
  writable.on('drain', () => {
    // In turn: whoever is served and has more comes to the end of the queue again.
    for (const connection of waiting) {
      if (writable.writableNeedDrain) return
      waiting.delete(connection)
      connection.flush()
    }
  })

  function begin(id: number): void {
    if (handOver === null) throw violation('frame N without a run that may connect')
    if (id !== last + 1) throw violation(`frame N with id ${id} after ${last}`)
    if (open.size === CONNECTIONS_MAX) throw violation(`more than ${CONNECTIONS_MAX} connections`)
    last = id
    if (handOver === 'discard') return
    const connection = new Connection(id, lane)
    open.set(id, connection)
    handOver(connection)
  }

  function destroyAll(): void {
    waiting.clear()
    for (const connection of open.values()) connection.abandon()
    open.clear()
  }

  return {
    serve(onConnection) {
      handOver = onConnection
    },
    take(type, payload) {
      if (payload.length < 4) throw violation(`frame ${type} of ${payload.length} bytes`)
      const id = payload.readUInt32LE(0)
      const rest = payload.subarray(4)
      if (type === 'N') {
        if (rest.length !== 0) throw violation('frame N has another shape')
        begin(id)
      } else {
        if (id === 0 || id > last) throw violation(`frame ${type} for connection ${id}, which never was`)
        const connection = open.get(id)
        // Gone a moment ago, which the guest could not know yet.
        if (connection !== undefined) dispatch(connection, type, rest)
      }
      return writable.writableLength > UNREAD_MAX
    },
    discard() {
      if (handOver !== null) handOver = 'discard'
      destroyAll()
    },
    end() {
      handOver = null
      destroyAll()
    },
  }
}

function dispatch(connection: Connection, type: 'D' | 'W' | 'Q', rest: Buffer): void {
  if (type === 'D') connection.receive(rest)
  else if (type === 'W' && rest.length === 4) connection.grant(rest.readUInt32LE(0))
  else if (type === 'Q' && rest.length === 1) connection.quit(rest.readUInt8(0))
  else throw violation(`frame ${type} has another shape`)
}
