/** The way into a pod that runs pod.py: to its agent's channel. */
import type { Socket } from 'node:net'
import type { Channel } from '@cofferdam/backend-remote'
import type { ClaimedPod } from './claim-state.ts'
import { dialled, redialPause } from './dial-pod.ts'
import { greetFresh, NotTakenIn, type SessionHold } from './greet-pod.ts'

/** The channel of a pod that nobody used yet, as soon as it is that pod that answers. Throws why it never did, or the reason of `signal`. */
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
      // The claim may yet get another pod, of which `signal` tells. Not for a session: who answered has heard its key.
      if (!(error instanceof NotTakenIn) || hold !== null) throw error
      last = error
    }
}

/** The channel that a connection is once the greeting went well; otherwise it is closed. */
export async function greeted(socket: Socket, greet: () => Promise<void>): Promise<Channel> {
  try {
    await greet()
    return { readable: socket, writable: socket, stderrTail: () => '' }
  } catch (error) {
    socket.destroy()
    throw error
  }
}
