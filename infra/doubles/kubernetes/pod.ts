/** A pod of the double: pod.py as the first process of a jail, at a loopback address of its own. */
import { createConnection, createServer } from 'node:net'
import { NODE, SOCKET, startJail } from '../jail.ts'

/** Where the backend dials by default. */
export const PORT = 7071

export interface Pod extends AsyncDisposable {
  readonly ip: string
  readonly ended: Promise<unknown>
}

let last = 0
/** 127.1.0.1 and on; any address of 127/8 is this host on Linux. */
function nextAddress(): string {
  last = (last + 1) % 60_000
  return `127.1.${Math.floor(last / 250)}.${(last % 250) + 1}`
}

/** Starts one; resolves when it can be dialled. `agentFolder` holds the guest's files, as our image does. */
export async function startPod(name: string, agentFolder: string): Promise<Pod> {
  const jail = await startJail({
    hostname: name,
    uid: 65_534,
    isInit: true,
    command: ['/usr/bin/python3', '-I', '-S', '/opt/agent/pod.py', SOCKET, '--node', NODE, '--own-disk'],
    shows: [[agentFolder, '/opt/agent']],
    environment: {},
  })
  const server = createServer((outside) => {
    const inside = createConnection(jail.socket)
    outside.pipe(inside).pipe(outside)
    for (const [one, other] of [
      [outside, inside],
      [inside, outside],
    ] as const) {
      one.on('error', () => other.destroy())
      one.once('close', () => other.destroy())
    }
  })
  const ip = await listen(server)
  const ended = jail.ended.then(() => server.close())
  return {
    ip,
    ended,
    async [Symbol.asyncDispose]() {
      await jail[Symbol.asyncDispose]()
      await ended
    },
  }
}

/** Another double, or another program, may have an address already. */
async function listen(server: ReturnType<typeof createServer>): Promise<string> {
  for (;;) {
    const ip = nextAddress()
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    server.once('error', reject)
    server.listen(PORT, ip, () => resolve(undefined))
    try {
      await promise
      server.removeListener('error', reject)
      return ip
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    }
  }
}
