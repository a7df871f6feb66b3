/** A server at an address that a claim has by mistake. It accepts no session. */
import { createServer, type Socket } from 'node:net'
import { listenAll, PORT } from './pod.ts'

export interface Stranger {
  /** What each connection sent, in order. */
  readonly heard: readonly string[]
  /** Stops the server. Claims that have its address lose that address and get pods. */
  lose(): void
}

export interface RunningStranger extends Stranger {
  readonly ip: string
  readonly lost: Promise<unknown>
}

/** Starts such a server at a pod's port. It answers the first bytes with `answer` and disconnects. */
export async function startStranger(answer: string): Promise<RunningStranger> {
  const heard: string[] = []
  const open = new Set<Socket>()
  const lost = Promise.withResolvers<undefined>()
  const takesNobody = () =>
    createServer((socket) => {
      open.add(socket)
      socket.once('close', () => open.delete(socket))
      socket.on('error', () => undefined)
      socket.once('data', (words) => {
        heard.push(String(words))
        socket.end(answer)
      })
    })
  const { ip, close } = await listenAll([[PORT, takesNobody]])
  return {
    ip,
    heard,
    lost: lost.promise,
    lose() {
      close()
      for (const socket of open) socket.destroy()
      lost.resolve(undefined)
    },
  }
}
