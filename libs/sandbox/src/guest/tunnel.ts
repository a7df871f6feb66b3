/**
 * The worker's end of the program's connections: each is a Duplex whose far end is the program. The agent's
 * tunnel.py describes the frames and the states.
 *
 * The guest may forge every frame. Ids go up by one, so an id is the next one, an earlier one, or a
 * violation. Closed connections therefore need not be remembered. A connection counts until its Duplex is
 * destroyed, whatever the guest says. So at most 64 connections buffer one window of bytes each.
 */
import type { Duplex, Writable } from 'node:stream'
import { violation } from './protocol.ts'
import { Connection, type Lane } from './tunnel-connection.ts'

/** Port of the proxy on 127.0.0.1 of a sandbox. */
export const PROXY_PORT = 3128

/** The same number as in tunnel.py, which explains it. */
const CONNECTIONS_MAX = 64
/**
 * If more than this many written bytes wait for the guest to read them, the worker reads no further frame of
 * the guest.
 */
const UNREAD_MAX = 256 * 1024

export interface Tunnel {
  /** Connections that begin from now on go to `onConnection`, until `end`. */
  serve(onConnection: (connection: Duplex) => void): void
  /**
   * Takes a frame of type N, D, W or Q. If this returns true, wait for `drain` before the next frame. Throws
   * `protocol_violation`.
   */
  take(type: 'N' | 'D' | 'W' | 'Q', payload: Buffer): boolean
  /** The caller has given up the run: destroys all connections and ignores the guest's frames until `end`. */
  discard(): void
  /** The run or the session is over: destroys all connections without telling the guest. */
  end(): void
}

/** One per session: ids continue over its runs. */
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
    // Round robin: a connection with more to send joins the end of the queue again.
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
        // Undefined when it was closed a moment ago, which the guest could not know yet.
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
