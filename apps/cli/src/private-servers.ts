/** Redis and Postgres for `up`: the configured servers, or private ones in the data directory. */
import { createServer } from 'node:net'
import path from 'node:path'
import { type RunningServer, startPostgres, startRedis } from '@cofferdam/embedded'
import { CommandFailure } from './command.ts'
import type { CliConfig } from './config.ts'

export interface Servers {
  redisUrl: string
  databaseUrl: string
  /** Where each server comes from, for people. */
  redisHow: string
  postgresHow: string
  /** The servers that `up` started and must stop. */
  own: RunningServer[]
}

/** Starts the servers that are not configured. If one fails, stops the other and throws the error. */
export async function startServers(config: CliConfig): Promise<Servers> {
  const options = (name: string) => ({ dataDir: path.join(config.dataDir, name), durable: true })
  const [redis, postgres] = await Promise.allSettled([
    config.redisUrl === undefined ? startRedis(options('redis')) : null,
    config.databaseUrl === undefined ? startPostgres(options('postgres')) : null,
  ])
  const own = [redis, postgres].flatMap((one) =>
    one.status === 'fulfilled' && one.value !== null ? [one.value] : [],
  )
  for (const one of [redis, postgres])
    if (one.status === 'rejected') {
      await Promise.all(own.map((server) => server.stop()))
      throw one.reason
    }
  const started = { redis: valueOf(redis), postgres: valueOf(postgres) }
  return {
    redisUrl: config.redisUrl ?? started.redis?.url ?? '',
    databaseUrl: config.databaseUrl ?? started.postgres?.url ?? '',
    redisHow: started.redis?.how ?? 'REDIS_URL',
    postgresHow: started.postgres?.how ?? 'DATABASE_URL',
    own,
  }
}

const valueOf = (settled: PromiseSettledResult<RunningServer | null>): RunningServer | null =>
  settled.status === 'fulfilled' ? settled.value : null

/** Throws `CommandFailure` when the server called `who` cannot listen on its port. */
export async function requireFreePort(host: string, port: number, who = 'The API'): Promise<void> {
  if (port === 0) return
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const server = createServer()
  server.once('error', (error: NodeJS.ErrnoException) => reject(refusal(who, host, port, error)))
  server.listen({ host, port, exclusive: true }, () => server.close(() => resolve()))
  await promise
}

function refusal(who: string, host: string, port: number, error: NodeJS.ErrnoException): Error {
  const why =
    error.code === 'EADDRINUSE'
      ? 'another process uses it (perhaps another `cofferdam up`)'
      : error.code === 'EACCES'
        ? 'this user may not listen on it'
        : error.message
  return new CommandFailure(
    `${who} cannot listen on ${host}:${port}: ${why}. Stop that process, or choose another port with --port.`,
    { cause: error },
  )
}
