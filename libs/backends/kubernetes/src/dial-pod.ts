/** Connects to a pod. TCP keepalive notices a host that loses its network without closing the connection. */
import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { unlessAborted } from '@cofferdam/contract'

/** A pod can be Ready before its first process listens, and before each node has a route to it. */
const NOT_YET = new Set(['ECONNREFUSED', 'EHOSTUNREACH'])
const REDIAL_MS = 50
/** The kernel probes a connection after this silence; its ten probes take up to half a minute. */
const SILENCE_MS = 15_000

/** Connects to a pod that may not listen yet. Throws `signal`'s reason, or why it is unreachable. */
export async function dialled(ip: string, port: number, signal: AbortSignal): Promise<Socket> {
  for (;;) {
    signal.throwIfAborted()
    const socket = await connected(ip, port, signal).catch((error: NodeJS.ErrnoException) => {
      if (error.code === undefined || !NOT_YET.has(error.code)) throw error
      return null
    })
    if (socket !== null) return socket
    await redialPause(signal)
  }
}

/** Waits before the next try. Throws the reason of `signal`. */
export async function redialPause(signal: AbortSignal): Promise<void> {
  await sleep(REDIAL_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
}

/** Tries once to connect. Throws as `dialled` does. */
export async function connected(host: string, port: number, signal: AbortSignal): Promise<Socket> {
  // The signal is not a socket option, because it would then also close an established connection.
  const socket = createConnection({
    host,
    port,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: SILENCE_MS,
  })
  // This listener stays, because nobody else listens between this function and its caller.
  socket.on('error', () => undefined)
  try {
    await unlessAborted(once(socket, 'connect'), signal)
    return socket
  } catch (error) {
    socket.destroy()
    throw error
  }
}
