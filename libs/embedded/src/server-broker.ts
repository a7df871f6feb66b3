/**
 * Starts servers on demand for the test processes: a unix socket that answers `redis` or `postgres` with a
 * URL. vitest's globalSetup must provide its values before any test runs, but most runs need no Postgres. So
 * it provides the socket's path instead of URLs.
 */
import { once } from 'node:events'
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  statfsSync,
} from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RunningServer } from './running-server.ts'
import { startPostgres } from './start-postgres.ts'
import { startRedis } from './start-redis.ts'

export type BrokeredServer = 'redis' | 'postgres'

export interface ServerBroker {
  socketPath: string
  /** Stops every server that was started and removes their data. */
  close(): Promise<void>
}

/** On Linux this is a file system in memory. In a container it often holds only 64 MiB. */
const MEMORY = '/dev/shm'
/** The databases of a whole run of tests take 600 MB. */
const ENOUGH_BYTES = 4 * 1024 ** 3
const PREFIX = 'cofferdam-run-'
/** The long tier took up to 7,860 s. */
const LONGEST_RUN_MS = 4 * 3_600_000
/** TMPFS_MAGIC of linux/magic.h. */
const TMPFS = 0x01021994

/**
 * Where the data of the servers lies: in memory if there is enough. Each test file makes a database of 300
 * files and removes it. On ext4, creating a file searches the inodes that were freed in the last seconds.
 * That took a fifth of the CPU time of the tests that use Postgres. Also removes what killed runs left in
 * memory.
 */
function parentOfData(): string {
  try {
    const { type, bavail, bsize } = statfsSync(MEMORY)
    if (type !== TMPFS || bavail * bsize < ENOUGH_BYTES) return tmpdir()
    accessSync(MEMORY, constants.W_OK)
    for (const name of readdirSync(MEMORY).filter(isAbandoned))
      rmSync(join(MEMORY, name), { recursive: true })
    return MEMORY
  } catch {
    return tmpdir()
  }
}

/**
 * Containers may share this file system but not process IDs. So a folder whose process is not visible counts
 * as abandoned only when it is old.
 */
function isAbandoned(name: string): boolean {
  const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1]
  if (pid === undefined || existsSync(`/proc/${pid}`)) return false
  return Date.now() - statSync(join(MEMORY, name)).mtimeMs > LONGEST_RUN_MS
}

/** Opens a broker in a private temporary directory. */
export async function openServerBroker(): Promise<ServerBroker> {
  const dir = mkdtempSync(join(parentOfData(), `${PREFIX}${process.pid}-`))
  // Without user namespaces, root's Postgres runs as another user, which must be able to enter.
  chmodSync(dir, 0o711)
  const socketPath = join(dir, 'broker.sock')
  const started = new Map<BrokeredServer, Promise<RunningServer>>()
  const start = (kind: BrokeredServer): Promise<RunningServer> => {
    const known = started.get(kind)
    if (known !== undefined) return known
    const options = { dataDir: join(dir, kind), durable: false }
    const fresh = kind === 'redis' ? startRedis(options) : startPostgres(options)
    started.set(kind, fresh)
    return fresh
  }
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    socket.once('data', (chunk: Buffer) => void answer(socket, chunk.toString('utf8').trim(), start))
  })
  server.listen(socketPath)
  await once(server, 'listening')
  return {
    socketPath,
    async close() {
      server.close()
      const all = await Promise.allSettled(started.values())
      await Promise.all(all.flatMap((one) => (one.status === 'fulfilled' ? [one.value.stop()] : [])))
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

async function answer(
  socket: Socket,
  kind: string,
  start: (kind: BrokeredServer) => Promise<RunningServer>,
): Promise<void> {
  try {
    if (kind !== 'redis' && kind !== 'postgres') throw new Error(`no server is called ${kind}`)
    socket.end(JSON.stringify({ url: (await start(kind)).url }))
  } catch (error) {
    socket.end(JSON.stringify({ error: error instanceof Error ? error.message : String(error) }))
  }
}

/** The URL of a server of the broker at `socketPath`. The first request starts the server. */
export async function askForServer(socketPath: string, kind: BrokeredServer): Promise<string> {
  const socket = connect(socketPath)
  socket.write(`${kind}\n`)
  let text = ''
  for await (const chunk of socket) text += String(chunk)
  const reply: unknown = JSON.parse(text)
  if (typeof reply === 'object' && reply !== null && 'url' in reply && typeof reply.url === 'string')
    return reply.url
  throw new Error(`the test run's ${kind} did not start: ${text}`)
}
