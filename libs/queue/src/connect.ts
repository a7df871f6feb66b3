/** Connections by role, and the check that distinguishes an unreachable Redis from a broken script. */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { Cluster, Redis, type RedisOptions as AnyRedisOptions } from 'ioredis'
import { QUEUE_BOUNDS } from './bounds.ts'
import { bindToCell, cellOf, cellOfNumber } from './cell.ts'
import { parseRedisUrl, type RedisAddress } from './redis-address.ts'

/** RESP2 replies have only one form, so the option `replyMapping` is not needed. */
type RedisOptions = Omit<AnyRedisOptions, 'replyMapping'>

export type RedisRole = 'producer' | 'worker' | 'subscriber'

const ROLES: Record<RedisRole, RedisOptions> = {
  // Fails fast: a caller of the API gets queue_unavailable instead of a request that hangs.
  producer: { enableOfflineQueue: false, maxRetriesPerRequest: 1, commandTimeout: 5000 },
  // Waits for Redis to come back, because a worker's writes must survive a restart.
  worker: { maxRetriesPerRequest: null },
  subscriber: { maxRetriesPerRequest: null },
}

/** 100 ms, 200 ms … at most 1 s, so that a restart of Redis costs at most one second more. */
const retryStrategy = (times: number): number => Math.min(50 * 2 ** Math.min(times, 5), 1000)

/**
 * Opens a connection that reconnects by itself, to any address that redis-address.ts knows. Returns at once.
 * While Redis is away, commands of role `producer` fail, and those of the other roles wait. `cell` is the
 * number of the cell to which it belongs (cell.ts).
 *
 * A cluster's connection is used like any other, because all keys of a command share a hash tag. Throws
 * `config_invalid`.
 */
export function connectRedis(url: string, role: RedisRole, cell = 0): Redis {
  const options: RedisOptions = {
    ...ROLES[role],
    // RESP2 costs the client less CPU than RESP3 (measured).
    protocol: 2,
    connectTimeout: 5000,
    connectionName: `cofferdam-${role}`,
    retryStrategy,
    // Sentinel or the cluster demoted this master: find the new one and send the command there (2).
    reconnectOnError: (error) => (error.message.startsWith('READONLY') ? 2 : false),
  }
  const redis = bindToCell(open(parseRedisUrl(url), url, options), cellOfNumber(cell))
  // ioredis prints errors without a listener. Each command reports its own failure anyway.
  redis.on('error', () => undefined)
  corkEach(redis)
  return redis
}

/**
 * ioredis makes one system call per command, and each wakes the server. Corking sends the commands of one
 * turn of the event loop together: an eighth of the calls with 100 executions in flight.
 */
function writeOncePerTick(stream: Redis['stream']): void {
  const uncork = (): void => stream.uncork()
  const write: unknown = Reflect.get(stream, 'write')
  const corkAndWrite = (...args: unknown[]): unknown => {
    if (stream.writableCorked === 0) {
      stream.cork()
      process.nextTick(uncork)
    }
    return Reflect.apply(write as () => unknown, stream, args)
  }
  Object.assign(stream, { write: corkAndWrite })
}

function corkEach(redis: Redis): void {
  const cork = (one: Redis): void => void one.on('connect', () => writeOncePerTick(one.stream))
  const either: unknown = redis
  if (either instanceof Cluster) either.on('+node', cork)
  else cork(redis)
}

function open(address: RedisAddress, url: string, options: RedisOptions): Redis {
  switch (address.kind) {
    case 'url':
      return new Redis(url, options)
    case 'unix': {
      const { kind: _kind, ...where } = address
      return new Redis({ ...options, ...where })
    }
    case 'sentinel': {
      const { kind: _kind, tls, ...where } = address
      return new Redis({
        ...options,
        ...where,
        ...(tls === undefined ? {} : { tls, enableTLSForSentinelMode: true, sentinelTLS: tls }),
        sentinelRetryStrategy: retryStrategy,
        // No `failoverDetector`: with one, ioredis 6 closes the connection for good if a failover comes while
        // it connects.
      })
    }
    case 'cluster': {
      const { kind: _kind, nodes, ...login } = address
      const { enableOfflineQueue = true, retryStrategy: _retry, ...redisOptions } = options
      const cluster = new Cluster(nodes, {
        enableOfflineQueue,
        clusterRetryStrategy: retryStrategy,
        // A failover takes the node timeout of the cluster, which is seconds. Commands are retried every 200
        // ms until it is over.
        slotsRefreshTimeout: 5000,
        slotsRefreshInterval: 5000,
        retryDelayOnClusterDown: 200,
        retryDelayOnFailover: 200,
        redisOptions: { ...redisOptions, ...login },
      })
      // A cluster client has the same commands, events and `status`. Only `duplicate` differs (duplicateOf).
      return cluster as unknown as Redis
    }
  }
}

/** A second connection to the same server or cluster, for the same cell, with other options. */
export function duplicateOf(redis: Redis, options: RedisOptions): Redis {
  const either: unknown = redis
  const cell = cellOf(redis)
  if (!(either instanceof Cluster)) return bindToCell(redis.duplicate(options), cell)
  const { enableOfflineQueue = true, ...redisOptions } = options
  const own = either.options.redisOptions ?? {}
  const merged: RedisOptions = { ...(own as RedisOptions), ...redisOptions }
  const twin = either.duplicate([], { enableOfflineQueue, redisOptions: merged })
  return bindToCell(twin as unknown as Redis, cell)
}

/** Reply errors after which the same call may succeed later. */
const NOT_NOW =
  /^(LOADING|READONLY|OOM|MISCONF|MASTERDOWN|CLUSTERDOWN|NOREPLICAS|TRYAGAIN|BUSY|NOAUTH|UNBLOCKED)/

/** True when the same call may work later: no connection, or a server that starts, is full or fails over. */
export function isRedisAway(error: unknown): boolean {
  if (!(error instanceof Error) || isCofferdamError(error)) return false
  return error.name === 'ReplyError'
    ? NOT_NOW.test(error.message)
    : // ioredis has no common class for lost sockets, timeouts, spent retries and unknown nodes.
      /ClusterAllFailed|startup nodes|cluster isn't ready|redirections|unreachable|connect|closed|socket|stream|timed? ?out|retries|EPIPE|ECONN|ENOENT|EACCES|ENOTFOUND|EAI_AGAIN/i.test(
        `${error.name} ${error.message} ${'code' in error ? String(error.code) : ''}`,
      )
}

/** Runs a call. Throws `queue_unavailable` when Redis does not answer, and passes on other errors. */
export type Guard = <T>(call: () => Promise<T>) => Promise<T>

/** Creates the guard of a producer's connection: waits up to `connectPatienceMs`, then fails fast. */
export function createGuard(redis: Redis): Guard {
  let pending: Promise<void> | null = null
  return async (call) => {
    try {
      if (redis.status !== 'ready') await (pending ??= ready(redis).finally(() => (pending = null)))
      return await call()
    } catch (error) {
      if (!isRedisAway(error)) throw error
      throw new CofferdamError('queue_unavailable', undefined, { cause: error })
    }
  }
}

/**
 * Timers run before sockets are read, so a single timer would give up on a Redis that answered while the
 * process was suspended. So the wait has this many steps. A suspension uses up one of them, however long it
 * is, and answers that arrived meanwhile are read before the next.
 */
const PATIENCE_LOOKS = 20

async function ready(redis: Redis): Promise<void> {
  if (redis.status === 'end') throw new Error('Connection is closed.')
  if (redis.status === 'wait') redis.connect().catch(() => undefined)
  const answer = Promise.withResolvers<void>()
  let looks = PATIENCE_LOOKS
  const timer = setInterval(() => {
    looks -= 1
    if (looks === 0)
      answer.reject(new Error(`no connection to Redis within ${QUEUE_BOUNDS.connectPatienceMs} ms`))
  }, QUEUE_BOUNDS.connectPatienceMs / PATIENCE_LOOKS)
  redis.once('ready', answer.resolve)
  try {
    await answer.promise
  } finally {
    clearInterval(timer)
    redis.off('ready', answer.resolve)
  }
}
