/** A registry on its own connection to a test's Redis, and names that no other test uses. */
import { randomUUID } from 'node:crypto'
import {
  newSessionId,
  newWorkerId,
  type SessionEntry,
  type SessionLease,
  type SessionName,
  type WorkerId,
} from '@cofferdam/contract'
import { Redis } from 'ioredis'
import { createSessionRegistry, type Sessions, type SessionsDeps } from '../src/index.ts'

export interface Opened {
  redis: Redis
  sessions: Sessions
  worker: WorkerId
  /** Claims without waiting. */
  claim(name: SessionName, waitMs?: number): Promise<SessionLease>
  close(): void
}

export function openSessions(url: string, deps: Partial<Omit<SessionsDeps, 'redis'>> = {}): Opened {
  const redis = new Redis(url.replace(/^unix:\/\//, ''), { maxRetriesPerRequest: null })
  redis.on('error', () => {}) // tests stop servers on purpose
  const sessions = createSessionRegistry({ redis, ...deps })
  const worker = newWorkerId('0123456789ab')
  return {
    redis,
    sessions,
    worker,
    claim: async (name, waitMs = 0) =>
      await sessions.claim(name, worker, { waitMs, signal: new AbortController().signal }),
    close: () => redis.disconnect(),
  }
}

export const freshName = (): SessionName => {
  const id = randomUUID().slice(0, 8)
  return { tenantId: `tenant-${id}`, backend: `backend-${id}`, key: 'main' }
}

/** An entry that may be ended at `idleAtMs`. */
export const entryAt = (epoch: number, idleAtMs: number): SessionEntry => ({
  sessionId: newSessionId(),
  scope: 'files',
  epoch,
  handle: { id: `vendor-${epoch}` },
  createdAtMs: 1_700_000_000_000,
  usedAtMs: 1_700_000_000_000,
  idleAtMs,
  expiresAtMs: null,
})

export const sessionKey = (name: SessionName): string =>
  `cfd:{${name.tenantId}}:session:${name.backend}:${name.key}`

/**
 * Changes the stored values as if the server's clock were set forward by `ms` (back if negative): leases end
 * earlier (later), and a fence without a holder, which counts microseconds, is further behind (ahead).
 */
export async function moveClock(redis: Redis, name: SessionName, ms: number): Promise<void> {
  const till = Number((await redis.hget(sessionKey(name), 'till')) ?? 0)
  const hasFence = (await redis.hexists(sessionKey(name), 'fence')) === 1
  if (till > 0) await redis.hset(sessionKey(name), 'till', till - ms)
  else if (hasFence && ms < 0) await redis.hincrby(sessionKey(name), 'fence', -ms * 1000)
}
