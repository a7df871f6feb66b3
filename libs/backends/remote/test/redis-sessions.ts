/** A registry of sessions on a Redis of the test file, whose leases tests can end. */
import { CofferdamError, type SessionName } from '@cofferdam/contract'
import { isolatedRedis } from '@cofferdam/embedded/testing'
import { connectRedis } from '@cofferdam/queue'
import { createSessionRegistry, type Sessions } from '@cofferdam/sessions'

/** No renewal happens during a test, so a lease ends only where a test ends it. */
const LEASE_MS = 3_600_000

export interface TestSessions extends Sessions, AsyncDisposable {
  readonly url: string
  /** Ends the lease of the session's holder, and tells the holder if it is in this process. */
  expire(name: SessionName): Promise<void>
  /** Forgets every session. */
  clear(): Promise<void>
}

/** Starts the Redis, which takes 13 ms. */
export async function redisSessions(): Promise<TestSessions> {
  const server = await isolatedRedis()
  const redis = connectRedis(server.url, 'worker')
  const registry = createSessionRegistry({ redis, leaseMs: LEASE_MS })
  const held = new Map<string, AbortController>()
  return {
    ...registry,
    url: server.url,
    async claim(name, holder, options) {
      const lease = await registry.claim(name, holder, options)
      const lost = new AbortController()
      held.set(keyOf(name), lost)
      return Object.assign(lease, { signal: AbortSignal.any([lease.signal, lost.signal]) })
    },
    async expire(name) {
      const key = keyOf(name)
      // Like the next claim: from then on a write with the old fence is refused.
      await redis.multi().hincrby(key, 'fence', 1).hdel(key, 'holder', 'till').exec()
      held.get(key)?.abort(new CofferdamError('fenced'))
    },
    async clear() {
      await redis.flushall()
    },
    async [Symbol.asyncDispose]() {
      redis.disconnect()
      await server.stop()
    },
  }
}

const keyOf = ({ tenantId, backend, key }: SessionName): string =>
  `cfd:{${tenantId}}:session:${backend}:${key}`
