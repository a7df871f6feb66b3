/**
 * Result of the fleet's last check of its audit tables. One worker checks for all, because a check reads all
 * rows of a day. The result is in Redis, so that every API reports the same, recent one.
 */
import type { Redis } from 'ioredis'
import { keysOf } from './cell.ts'

/** Three hourly rounds. After that, the result is dropped, because an outdated number would mislead. */
const KEPT_MS = 3 * 3_600_000

/** Returns true for one worker of the fleet per `everyMs`. That worker runs the check. */
export async function claimAuditLook(redis: Redis, worker: string, everyMs: number): Promise<boolean> {
  return (await redis.set(keysOf(redis).auditLook, worker, 'PX', everyMs, 'NX')) === 'OK'
}

export async function keepAuditFaults(redis: Redis, count: number): Promise<void> {
  await redis.set(keysOf(redis).auditFaults, count, 'PX', KEPT_MS)
}

/** Number of faults that the last check found. Null when there was no check for three hours. */
export async function readAuditFaults(redis: Redis): Promise<number | null> {
  const kept = await redis.get(keysOf(redis).auditFaults)
  return kept === null ? null : Number(kept)
}
