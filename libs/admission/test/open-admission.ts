/** An admission on its own connection to a test's Redis, with nothing charged before and short waits. */
import { newExecutionId, type ExecutionId } from '@cofferdam/contract'
import { Redis } from 'ioredis'
import { createAdmission, type Admission, type AdmissionDeps, type AttemptKey } from '../src/index.ts'

export interface Opened {
  redis: Redis
  admission: Admission
  close(): void
}

/** Connects as a worker does (commands wait for the server). */
export function connect(url: string, options: { enableOfflineQueue?: boolean } = {}): Redis {
  const redis = new Redis(url.replace(/^unix:\/\//, ''), { maxRetriesPerRequest: null, ...options })
  redis.on('error', () => {}) // tests stop servers on purpose
  return redis
}

export function openAdmission(
  url: string,
  deps: Partial<Omit<AdmissionDeps, 'redis'>> = {},
  options: { enableOfflineQueue?: boolean } = {},
): Opened {
  const redis = connect(url, options)
  const dayMs = deps.dayMs ?? 86_400_000
  const admission = createAdmission({
    redis,
    countCharged: async (_tenantId, atMs) => ({
      day: { bucket: Math.floor(atMs / dayMs), count: 0 },
      hours: [],
    }),
    ...deps,
  })
  return { redis, admission, close: () => redis.disconnect() }
}

/** A new attempt of a tenant. */
export const attemptOf = (
  tenantId: string,
  agentId = 'agent-1',
  executionId: ExecutionId = newExecutionId(),
): AttemptKey => ({ tenantId, agentId, executionId, attempt: 1 })

/** Windows that no test crosses, because both end in 2033 or later. */
export const LONG_WINDOWS = { dayMs: 4e12, hourMs: 1e12 } as const

/** Everything that Redis holds of a tenant, as text that can be compared. */
export async function dump(redis: Redis, tenantId: string): Promise<Record<string, unknown>> {
  const names = (await redis.keys(`cfd:{${tenantId}}:*`)).toSorted()
  const entries = names.map(async (name) => {
    const type = await redis.type(name)
    if (type === 'hash') return [name, await redis.hgetall(name)] as const
    if (type === 'zset') return [name, await redis.zrange(name, '0', '-1', 'WITHSCORES')] as const
    return [name, await redis.get(name)] as const
  })
  return Object.fromEntries(await Promise.all(entries))
}

/** Ledger entries that are charged and not refunded. */
export async function ledger(redis: Redis, tenantId: string): Promise<string[]> {
  return redis.keys(`cfd:{${tenantId}}:charge:*`)
}
