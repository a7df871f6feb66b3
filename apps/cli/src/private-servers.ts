/** Redis and Postgres for `up`: the configured ones, else private ones in the data directory. */
import path from 'node:path'
import { startPostgres, startRedis, type RunningServer } from '@cofferdam/embedded'
import type { CliConfig } from './config.ts'

export interface Servers {
  redisUrl: string
  databaseUrl: string
  /** How each came to be, for people. */
  redisHow: string
  postgresHow: string
  /** Those that are ours to stop. */
  own: RunningServer[]
}

/** Starts what is not configured. When one cannot be had, stops the other and throws its EmbeddedServerError. */
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
