/** The connection to a pod, which notices when the pod's host is cut off without a word. */
import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { unlessAborted } from '@cofferdam/contract'

/** A pod may be Ready before its first process listens, and before each node knows the way to it. */
const NOT_YET = new Set(['ECONNREFUSED', 'EHOSTUNREACH'])
const REDIAL_MS = 50
/** Of silence, before the kernel asks whether the pod's host is still there; with its own ten questions it is gone after half a minute. */
const SILENCE_MS = 15_000

/** Connects to a pod that may not listen yet. Throws the reason of `signal`, or why there is no way to it. */
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

/** Before the next try. Throws the reason of `signal`. */
export async function redialPause(signal: AbortSignal): Promise<void> {
  await sleep(REDIAL_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
}

/** Connects at once. Throws as `dialled`. */
export async function connected(host: string, port: number, signal: AbortSignal): Promise<Socket> {
  // Not with the signal as an option: that would end the connection also after it was made.
  const socket = createConnection({
    host,
    port,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: SILENCE_MS,
  })
  // Stays for good: between this function and its caller nobody else listens.
  socket.on('error', () => undefined)
  try {
    await unlessAborted(once(socket, 'connect'), signal)
    return socket
  } catch (error) {
    socket.destroy()
    throw error
  }
}
