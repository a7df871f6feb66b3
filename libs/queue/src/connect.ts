/** Connections by role, and the one place that tells an unreachable Redis from a broken script. */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { Redis, type RedisOptions as AnyRedisOptions } from 'ioredis'
import { QUEUE_BOUNDS } from './bounds.ts'

/** With RESP2 replies there is one reply shape. */
type RedisOptions = Omit<AnyRedisOptions, 'replyMapping'>

export type RedisRole = 'producer' | 'worker' | 'subscriber'

const ROLES: Record<RedisRole, RedisOptions> = {
  // Fails fast: a caller of the API gets queue_unavailable instead of a request that hangs.
  producer: { enableOfflineQueue: false, maxRetriesPerRequest: 1, commandTimeout: 5000 },
  // Waits for Redis to come back: what a worker has to write must not be lost to a restart.
  worker: { maxRetriesPerRequest: null },
  subscriber: { maxRetriesPerRequest: null },
}

/**
 * Opens a connection that recovers by itself. `url` is `redis://`, `rediss://` or `unix:///path/to/redis.sock`,
 * optionally with a database (`/2`, for unix `?db=2`). Returns at once; commands of role `producer` fail with a
 * connection error while Redis is away, those of the other roles wait.
 */
export function connectRedis(url: string, role: RedisRole): Redis {
  const options: RedisOptions = {
    ...ROLES[role],
    // RESP2: fewer client microseconds than RESP3 (queue-caps-audit.md §1.3), and one reply shape.
    protocol: 2,
    connectTimeout: 5000,
    connectionName: `cofferdam-${role}`,
    // 50 ms, 100 ms … at most 1 s: a restart of Redis costs no more than a second on top.
    retryStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 5), 1000),
  }
  const redis = url.startsWith('unix:') ? new Redis(unixOptions(url, options)) : new Redis(url, options)
  // ioredis prints errors that nobody listens to. Each command reports its own failure; reconnecting is automatic.
  redis.on('error', () => undefined)
  redis.on('connect', () => writeOncePerTick(redis.stream))
  return redis
}

/**
 * ioredis writes each command by a system call of its own, and each wakes the server. What is sent before the process
 * turns to the next event goes out together: an eighth of the calls with 100 executions in flight.
 */
function writeOncePerTick(stream: Redis['stream']): void {
  const uncork = (): void => stream.uncork()
  const write: unknown = stream.write
  const corkAndWrite = (...args: unknown[]): unknown => {
    if (stream.writableCorked === 0) {
      stream.cork()
      process.nextTick(uncork)
    }
    return Reflect.apply(write as () => unknown, stream, args)
  }
  Object.assign(stream, { write: corkAndWrite })
}

function unixOptions(url: string, options: RedisOptions): RedisOptions {
  const { pathname, searchParams, username, password } = new URL(url)
  return {
    ...options,
    path: decodeURIComponent(pathname),
    db: Number(searchParams.get('db') ?? 0),
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
  }
}

/** Reply errors that mean "not now" rather than "wrong". */
const NOT_NOW =
  /^(LOADING|READONLY|OOM|MISCONF|MASTERDOWN|CLUSTERDOWN|NOREPLICAS|TRYAGAIN|BUSY|NOAUTH|UNBLOCKED)/

/** True when the same call may work later: connection trouble, or a server that is starting, full or failing over. */
export function isRedisAway(error: unknown): boolean {
  if (!(error instanceof Error) || isCofferdamError(error)) return false
  return error.name === 'ReplyError'
    ? NOT_NOW.test(error.message)
    : // ioredis has no common class for these: closed and reset sockets, timeouts, spent retries.
      /connect|closed|socket|stream|timed? ?out|retries|EPIPE|ECONN|ENOENT|EACCES|ENOTFOUND|EAI_AGAIN/i.test(
        `${error.name} ${error.message} ${'code' in error ? String(error.code) : ''}`,
      )
}

/** Runs a call; throws CofferdamError `queue_unavailable` when Redis does not answer. Other errors pass through. */
export type Guard = <T>(call: () => Promise<T>) => Promise<T>

/** Makes the guard of a producer's connection: waits up to `connectPatienceMs` for it, then fails fast. */
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

async function ready(redis: Redis): Promise<void> {
  if (redis.status === 'end') throw new Error('Connection is closed.')
  if (redis.status === 'wait') redis.connect().catch(() => undefined)
  const answer = Promise.withResolvers<void>()
  const timer = setTimeout(
    () => answer.reject(new Error(`no connection to Redis within ${QUEUE_BOUNDS.connectPatienceMs} ms`)),
    QUEUE_BOUNDS.connectPatienceMs,
  )
  redis.once('ready', answer.resolve)
  try {
    await answer.promise
  } finally {
    clearTimeout(timer)
    redis.off('ready', answer.resolve)
  }
}
