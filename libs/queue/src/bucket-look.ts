/**
 * Decides which worker looks for expired blobs in the fleet's bucket. Each look costs requests, so one worker
 * per period is enough.
 */
import type { Redis } from 'ioredis'
import { keysOf } from './cell.ts'

/** Returns true for one worker of the fleet per `everyMs`. */
export async function claimBucketLook(redis: Redis, worker: string, everyMs: number): Promise<boolean> {
  return (await redis.set(keysOf(redis).bucketLook, worker, 'PX', everyMs, 'NX')) === 'OK'
}
