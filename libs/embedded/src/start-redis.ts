/** A private Redis for this process: unix socket only, dies with us, keeps its data when `durable`. */
import { randomBytes } from 'node:crypto'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { claimDirectory } from './claim-directory.ts'
import { dieWithParent } from './find-program.ts'
import { findRedis, type FoundRedis, type RedisSource } from './find-redis.ts'
import { redisAnswers } from './redis-ping.ts'
import { containerCommand, publishedPort } from './redis-container.ts'
import type { RunningServer, StartOptions } from './running-server.ts'
import { socketPlace, type SocketPlace } from './socket-place.ts'
import { supervise, type Supervised } from './supervise.ts'

/** Loading 1 GB of append-only file takes about 10 s; an image may have to be pulled first. */
const READY_MS = { program: 60_000, container: 180_000 } as const
/** SIGTERM flushes and syncs the append-only file before it exits. */
const STOP_GRACE_MS = 10_000
const SOCKET = 'redis.sock'

export interface RedisOptions extends StartOptions {
  /** Where to look for a server. Default: all three, in this order. */
  sources?: readonly RedisSource[]
  /** Where unpacked packages are kept. Default: `~/.cache/cofferdam`. */
  cacheDir?: string
}

/**
 * Starts a Redis (or Valkey) in `dataDir` and resolves when it answers. Throws `EmbeddedServerError`:
 * `server_missing`, `directory_in_use` or `start_failed`.
 */
export async function startRedis(options: RedisOptions): Promise<RunningServer> {
  const cacheDir = options.cacheDir ?? join(homedir(), '.cache', 'cofferdam')
  const claim = await claimDirectory(options.dataDir, 'Redis')
  let place: SocketPlace | null = null
  let server: Supervised | null = null
  try {
    const found = await findRedis(options.sources ?? ['path', 'package', 'container'], cacheDir)
    place = socketPlace(options.dataDir, SOCKET)
    // A socket file of a dead server: the claim proves that nobody listens on it.
    if (place.temporaryDir === null) place.remove()
    const launched = await launch(found, options, place.dir)
    server = launched.server
    claim.record(server.pid, place.temporaryDir)
    await server.ready(() => launched.answers(), READY_MS[found.kind])
    return running(server, await launched.url(), found.how, () => {
      place?.remove()
      claim.release()
    })
  } catch (error) {
    await server?.stop(['SIGKILL'], 0)
    place?.remove()
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

/** Noeviction: a full Redis refuses writes, it never forgets a job (BullMQ demands it). */
function persistence(durable: boolean): string[] {
  const kept = durable ? ['--appendonly', 'yes', '--appendfsync', 'everysec'] : ['--appendonly', 'no']
  return [...kept, '--save', '', '--maxmemory-policy', 'noeviction']
}

function running(server: Supervised, url: string, how: string, cleanUp: () => void): RunningServer {
  let stopping: Promise<void> | null = null
  return {
    url,
    how,
    pid: server.pid,
    exited: server.exited,
    stop() {
      stopping ??= server.stop(['SIGTERM', 'SIGKILL'], STOP_GRACE_MS).finally(cleanUp)
      return stopping
    },
  }
}
