/**
 * Result of the fleet's last check of its audit tables. One worker checks for all, because a check reads all
 * rows of a day. The result is in Redis, so that every API reports the same and no API reports an old one.
 */
import type { Redis } from 'ioredis'
import { KEYS } from './keys.ts'

/** Three rounds of an hour. Without a check for so long there is no figure rather than an old one. */
const KEPT_MS = 3 * 3_600_000

/** True for one worker of the fleet in `everyMs`: that worker checks. */
export async function claimAuditLook(redis: Redis, worker: string, everyMs: number): Promise<boolean> {
  return (await redis.set(KEYS.auditLook, worker, 'PX', everyMs, 'NX')) === 'OK'
}

/** Stores how many faults a check found. */
export async function keepAuditFaults(redis: Redis, count: number): Promise<void> {
  await redis.set(KEYS.auditFaults, count, 'PX', KEPT_MS)
}

/** How many faults the last check found; null when there was no check for three hours. */
export async function readAuditFaults(redis: Redis): Promise<number | null> {
  const kept = await redis.get(KEYS.auditFaults)
  return kept === null ? null : Number(kept)
}
