/** A pod of the double: runs its image's program in a jail, with its own loopback address. */
import { createConnection, createServer, type Server } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NODE, SOCKET, startJail } from '@cofferdam/backend-remote/double'

/** The port that the backend connects to by default. */
export const PORT = 7071
/** A second socket in the jail, for a runtime with two ports. */
const OTHER = '/run/jail/other'

/** What the image runs: our runtime, or one of Agent Sandbox's. */
export const RUNTIME_NAMES = ['cofferdam', 'sandboxd', 'python-runtime-sandbox'] as const
export type Runtime = (typeof RUNTIME_NAMES)[number]

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url))

/** The first process, its files below /opt, and the ports that lead to its two sockets. */
const RUNTIMES: Record<
  Runtime,
  { command: string[]; shows: [string, string][]; ports: [port: number, other: boolean][]; isInit: boolean }
> = {
  cofferdam: {
    command: ['/usr/bin/python3', '-I', '-S', '/opt/agent/pod.py', SOCKET, '--node', NODE, '--own-disk'],
    shows: [],
    ports: [[PORT, false]],
    isInit: true,
  },
  sandboxd: {
    command: [NODE, '/opt/sandboxd.ts', SOCKET, OTHER],
    shows: [[here('sandboxd.ts'), '/opt/sandboxd.ts']],
    ports: [
      [8080, false],
      [9090, true],
    ],
    isInit: false,
  },
  'python-runtime-sandbox': {
    command: ['/usr/bin/python3', '/opt/python_runtime.py', SOCKET, OTHER, String(PORT)],
    shows: [[here('python_runtime.py'), '/opt/python_runtime.py']],
    ports: [
      [8888, false],
      [PORT, true],
    ],
    isInit: false,
  },
}

export interface Pod extends AsyncDisposable {
  readonly ip: string
  readonly ended: Promise<unknown>
  /** Stops its processes but keeps its connections open. */
  hang(): Promise<void>
}

let last = 0
/** 127.1.0.1 and so on: on Linux every address of 127/8 is this host. */
function nextAddress(): string {
  last = (last + 1) % 60_000
  return `127.1.${Math.floor(last / 250)}.${(last % 250) + 1}`
}

/** Starts a pod; resolves when it accepts connections. `agentFolder`: the guest's files, as in our image. */
export async function startPod(name: string, agentFolder: string, runtime: Runtime): Promise<Pod> {
  const { command, shows, ports, isInit } = RUNTIMES[runtime]
  const jail = await startJail({
    hostname: name,
    uid: 65_534,
    isInit,
    command,
    shows: runtime === 'cofferdam' ? [[agentFolder, '/opt/agent']] : shows,
    environment: {},
  })
  const servers = ports.map(([port, other]): [number, () => Server] => [
    port,
    () => forwardTo(other ? join(dirname(jail.socket), basename(OTHER)) : jail.socket),
  ])
  const { ip, close } = await listenAll(servers)
  const ended = jail.ended.then(close)
  return {
    ip,
    ended,
    hang: () => jail.hang(),
    async [Symbol.asyncDispose]() {
      await jail[Symbol.asyncDispose]()
      await ended
    },
  }
}

/** A server that forwards to a socket of the jail. */
function forwardTo(socket: string): Server {
  return createServer((outside) => {
    const inside = createConnection(socket)
    outside.pipe(inside).pipe(outside)
    for (const [one, other] of [
      [outside, inside],
      [inside, outside],
    ] as const) {
      one.on('error', () => other.destroy())
      one.once('close', () => other.destroy())
    }
  })
}

/** Listens on all ports at one address. Tries the next address if another double or program uses this one. */
export async function listenAll(
  ports: [port: number, make: () => Server][],
): Promise<{ ip: string; close: () => void }> {
  for (;;) {
    const ip = nextAddress()
    const servers = ports.map(([, make]) => make())
    const close = (): void => servers.forEach((server) => void server.close())
    try {
      await Promise.all(servers.map((server, n) => listening(server, ports[n]?.[0] ?? 0, ip)))
      return { ip, close }
    } catch (error) {
      close()
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    }
  }
}

async function listening(server: Server, port: number, ip: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<undefined>()
  server.once('error', reject)
  server.listen(port, ip, () => resolve(undefined))
  await promise
  server.removeListener('error', reject)
}
