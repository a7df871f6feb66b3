/** Connects to the agent in a pod that runs pod.py. */
import type { Socket } from 'node:net'
import type { Channel } from '@cofferdam/backend-remote'
import type { ClaimedPod } from './claim-state.ts'
import { dialled, redialPause } from './dial-pod.ts'
import { greetFresh, NotTakenIn, type SessionHold } from './greet-pod.ts'

/**
 * Connects to a new pod, and retries until the right pod answers. Throws why none did, or `signal`'s reason.
 */
export async function takenIn(
  pod: ClaimedPod,
  port: number,
  options: readonly string[],
  hold: SessionHold | null,
  signal: AbortSignal,
): Promise<Channel> {
  for (let last: NotTakenIn | null = null; ;)
    try {
      if (last !== null) await redialPause(signal)
      const socket = await dialled(pod.ip, port, signal)
      return await greeted(socket, () => greetFresh(socket, pod, options, hold, signal))
    } catch (error) {
      if (signal.aborted) throw last ?? error
      // Retries at this pod until `signal` says that the claim lost it. Not for a session: its key was sent.
      if (!(error instanceof NotTakenIn) || hold !== null) throw error
      last = error
    }
}

/** Returns the channel after a successful greeting. Closes the socket otherwise. */
export async function greeted(socket: Socket, greet: () => Promise<void>): Promise<Channel> {
  try {
    await greet()
    return { readable: socket, writable: socket, stderrTail: () => '' }
  } catch (error) {
    socket.destroy()
    throw error
  }
}
