/**
 * Starts servers on demand for the test processes: a unix socket that answers `redis` or `postgres` with a
 * URL. vitest's globalSetup must provide its values before any test runs, but most runs need no Postgres. So
 * it provides the socket's path instead of URLs.
 */
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
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

/** Opens a broker in a private temporary directory. */
export async function openServerBroker(): Promise<ServerBroker> {
  const dir = mkdtempSync(join(tmpdir(), 'cofferdam-run-'))
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
