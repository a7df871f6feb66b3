/** Private Redis and Postgres for this process, when none is configured. */
export { claimDirectory, type Claim } from './claim-directory.ts'
export { EmbeddedServerError, type EmbeddedServerErrorCode } from './embedded-server-error.ts'
export type { RedisSource } from './find-redis.ts'
export type { RunningServer, StartOptions } from './running-server.ts'
export { startPostgres, type PostgresOptions } from './start-postgres.ts'
export { startRedis, type RedisOptions } from './start-redis.ts'
