/**
 * What the fleet's last look at its audit tables found. One worker looks for all, since a look reads every
 * row's day; what it found stands in Redis, so that every API tells the same and none goes on telling what is
 * over.
 */
import type { Redis } from 'ioredis'
import { KEYS } from './keys.ts'

/**
 * Three rounds of an hour: where nobody could look for that long there is no figure, rather than an old one.
 */
const KEPT_MS = 3 * 3_600_000

/** Whether it is up to this worker to look: to one of the fleet in `everyMs`. */
export async function claimAuditLook(redis: Redis, worker: string, everyMs: number): Promise<boolean> {
  return (await redis.set(KEYS.auditLook, worker, 'PX', everyMs, 'NX')) === 'OK'
}

/** Keeps how many faults were found. */
export async function keepAuditFaults(redis: Redis, count: number): Promise<void> {
  await redis.set(KEYS.auditFaults, count, 'PX', KEPT_MS)
}

/** How many the last look found; null when nobody has looked for three hours. */
export async function readAuditFaults(redis: Redis): Promise<number | null> {
  const kept = await redis.get(KEYS.auditFaults)
  return kept === null ? null : Number(kept)
}
