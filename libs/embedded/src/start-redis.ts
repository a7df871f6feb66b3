/** A private Redis: unix socket only, ends with this process, keeps its data if `durable`. */
import { randomBytes } from 'node:crypto'
import { connect, type NetConnectOpts } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { claimDirectory } from './claim-directory.ts'
import { dieWithParent } from './find-program.ts'
import { findRedis, type FoundRedis, type RedisSource } from './find-redis.ts'
import { containerCommand, publishedPort } from './redis-container.ts'
import type { RunningServer, StartOptions } from './running-server.ts'
import { socketDirectory, type SocketDirectory } from './socket-directory.ts'
import { runningServer, supervise, type Supervised } from './supervise.ts'

/** Loading 1 GB of append-only file takes about 10 s. A container image may have to be pulled first. */
const READY_MS = { program: 60_000, container: 180_000 } as const
/** On SIGTERM Redis flushes and syncs the append-only file before it exits. */
const STOP_GRACE_MS = 10_000
const SOCKET = 'redis.sock'

export interface RedisOptions extends StartOptions {
  /** Where to look for a server. Default: path, package, container. */
  sources?: readonly RedisSource[]
  /** Folder of unpacked packages. Default: `~/.cache/cofferdam`. */
  cacheDir?: string
}

/**
 * Starts a Redis (or Valkey) in `dataDir` and resolves when it answers. Throws `EmbeddedServerError`:
 * `server_missing`, `directory_in_use` or `start_failed`.
 */
export async function startRedis(options: RedisOptions): Promise<RunningServer> {
  const cacheDir = options.cacheDir ?? join(homedir(), '.cache', 'cofferdam')
  const claim = await claimDirectory(options.dataDir, 'Redis')
  let socket: SocketDirectory | null = null
  let server: Supervised | null = null
  try {
    const found = await findRedis(options.sources ?? ['path', 'package', 'container'], cacheDir)
    socket = socketDirectory(options.dataDir, SOCKET)
    // Remove the socket file of a dead server. The claim proves that nobody listens on it.
    if (socket.temporaryDir === null) socket.remove()
    const launched = await launch(found, options, socket.dir)
    server = launched.server
    claim.record(server.pid, socket.temporaryDir)
    await server.ready(() => launched.answers(), READY_MS[found.kind])
    return runningServer(server, await launched.url(), found.how, {
      signals: ['SIGTERM', 'SIGKILL'],
      graceMs: STOP_GRACE_MS,
      cleanUp() {
        socket?.remove()
        claim.release()
      },
    })
  } catch (error) {
    await server?.stop(['SIGKILL'], 0)
    socket?.remove()
    claim.release()
    throw error
  }
}

interface Launched {
  server: Supervised
  answers(): Promise<boolean>
  url(): Promise<string>
}

async function launch(found: FoundRedis, options: RedisOptions, socketDir: string): Promise<Launched> {
  const log = options.log ?? (() => {})
  if (found.kind === 'container') {
    const password = randomBytes(24).toString('hex')
    const name = `cofferdam-redis-${randomBytes(6).toString('hex')}`
    const flags = persistence(options.durable)
    const argv = containerCommand(found, { name, password, flags, dataDir: options.dataDir })
    const server = await supervise('Redis (container)', { argv, stdin: 'pipe' }, log)
    const port = (): Promise<number | null> => publishedPort(found.docker, name)
    return {
      server,
      answers: async () => {
        const at = await port()
        return at !== null && (await redisAnswers({ host: '127.0.0.1', port: at }, password))
      },
      url: async () => `redis://:${password}@127.0.0.1:${await port()}`,
    }
  }
  const path = join(socketDir, SOCKET)
  const argv = [
    ...(await dieWithParent(options.durable ? 'TERM' : 'KILL')),
    found.server,
    '--port',
    '0',
    '--unixsocket',
    path,
    '--unixsocketperm',
    '700',
    '--dir',
    options.dataDir,
    '--daemonize',
    'no',
    ...persistence(options.durable),
  ]
  const [file = found.server, ...args] = argv
  const server = await supervise(
    'Redis',
    { argv: [file, ...args], ...(found.env === undefined ? {} : { env: found.env }) },
    log,
  )
  return { server, answers: () => redisAnswers({ path }), url: async () => `unix://${path}` }
}

/** `noeviction`: a full Redis refuses writes instead of losing jobs. BullMQ requires it. */
function persistence(durable: boolean): string[] {
  const kept = durable ? ['--appendonly', 'yes', '--appendfsync', 'everysec'] : ['--appendonly', 'no']
  return [...kept, '--save', '', '--maxmemory-policy', 'noeviction']
}

/** A server that accepts a connection but does not answer in this time is not ready. */
const ANSWER_MS = 1000

/**
 * True when the server answers PONG. False while it loads its append-only file or when nobody listens. Uses a
 * plain socket, because importing ioredis takes 70 ms.
 */
export function redisAnswers(where: NetConnectOpts, password?: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(where)
    let answer = ''
    const finish = (ready: boolean): void => {
      socket.destroy()
      resolve(ready)
    }
    socket.setTimeout(ANSWER_MS, () => finish(false))
    socket.once('error', () => finish(false))
    socket.once('close', () => finish(false))
    socket.once('connect', () =>
      socket.write(`${password === undefined ? '' : `AUTH ${password}\r\n`}PING\r\n`),
    )
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString('latin1')
      if (answer.includes('+PONG')) finish(true)
      else if (answer.includes('-')) finish(false)
    })
  })
}
