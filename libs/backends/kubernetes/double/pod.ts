/** A pod of the double: what its image runs, in a jail, at a loopback address of its own. */
import { createConnection, createServer, type Server } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NODE, SOCKET, startJail } from '@cofferdam/backend-remote/double'

/** Where the backend dials by default. */
export const PORT = 7071
/** A second socket inside. */
const OTHER = '/run/jail/other'

/** What the image runs: ours, or one of the runtimes of Agent Sandbox. */
export const RUNTIME_NAMES = ['cofferdam', 'sandboxd', 'python-runtime-sandbox'] as const
export type Runtime = (typeof RUNTIME_NAMES)[number]

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url))

/** The first process, what it finds below /opt, and the ports that lead to its two sockets. */
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
  /** Its processes do nothing any more, and its connections stay. */
  hang(): Promise<void>
}

let last = 0
/** 127.1.0.1 and on; any address of 127/8 is this host on Linux. */
function nextAddress(): string {
  last = (last + 1) % 60_000
  return `127.1.${Math.floor(last / 250)}.${(last % 250) + 1}`
}

/** Starts one; resolves when it can be dialled. `agentFolder` holds the guest's files, as our image does. */
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

/** A server that leads to a socket of the jail. */
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

/** All ports at one address. Another double, or another program, may have an address already. */
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
