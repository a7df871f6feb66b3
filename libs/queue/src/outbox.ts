/** Stores the attempt records that Postgres does not have yet, each at least once. */
import type { AttemptRecord } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { QUEUE_BOUNDS } from './bounds.ts'
import { keysOf } from './cell.ts'

/** How long one worker drains alone. A second worker would only repeat its work. */
const LOCK_MS = 30_000

/**
 * Reads the outbox from its beginning and deletes each record after `store` resolved. A failed batch is tried
 * record by record, so that one bad record does not hold up the others. Throws the first failure.
 */
export async function drainOutbox(
  redis: Redis,
  workerId: string,
  store: (records: AttemptRecord[]) => Promise<void>,
): Promise<void> {
  if ((await redis.xlen(keysOf(redis).outbox)) === 0) return
  if ((await redis.set(keysOf(redis).outboxLock, workerId, 'PX', LOCK_MS, 'NX')) === null) return
  const failures: unknown[] = []
  try {
    for (let cursor = '-'; ;) {
      const page = await redis.xrange(keysOf(redis).outbox, cursor, '+', 'COUNT', QUEUE_BOUNDS.outboxBatch)
      const last = page.at(-1)
      if (last === undefined) break
      const before = failures.length
      await storePage(redis, page, store, failures)
      // Nothing of this page could be stored, so the store is away and the rest would fail too.
      if (failures.length - before === page.length) break
      cursor = `(${last[0]}`
    }
  } finally {
    if ((await redis.get(keysOf(redis).outboxLock)) === workerId) await redis.del(keysOf(redis).outboxLock)
  }
  if (failures.length > 0) throw failures[0]
}

async function storePage(
  redis: Redis,
  page: [id: string, fields: string[]][],
  store: (records: AttemptRecord[]) => Promise<void>,
  failures: unknown[],
): Promise<void> {
  const recordOf = ([, fields]: (typeof page)[number]) => JSON.parse(fields[1] ?? 'null') as AttemptRecord
  try {
    await store(page.map(recordOf))
    await redis.xdel(keysOf(redis).outbox, ...page.map(([id]) => id))
    return
  } catch (error) {
    if (page.length === 1) {
      failures.push(error)
      return
    }
  }
  for (const entry of page) {
    try {
      await store([recordOf(entry)])
      await redis.xdel(keysOf(redis).outbox, entry[0])
    } catch (error) {
      failures.push(error)
    }
  }
}
