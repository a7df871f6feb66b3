/**
 * Enqueues an execution together with the large parts of its request. They are stored before the enqueue,
 * because a script call with 16 MiB of arguments would block the server for everyone. Only the enqueue knows
 * whether the execution is accepted, so the blobs first get a short life. lua/include/keep-blobs.lua then
 * gives them their full life or deletes them, in one step with the answer. Without that, a tenant whose calls
 * are refused could fill Redis with requests that never run.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { QUEUE_BOUNDS } from './bounds.ts'
import { keysOf } from './cell.ts'
import type { StoredRequest } from './request-blobs.ts'
import { runCoded, SCRIPTS, type Reply } from './scripts.ts'

/** Runs the enqueue script. Throws `queue_unavailable` when Redis does not keep the blobs. */
export async function enqueueWithBlobs(
  redis: Redis,
  recordKey: string,
  blobs: StoredRequest['blobs'],
  args: readonly (string | number)[],
): Promise<{ code: string; rest: Reply[] }> {
  if (blobs.size === 0) return runCoded(redis, SCRIPTS.enqueue, recordKey, args)
  for (let attempt = 1; attempt <= QUEUE_BOUNDS.blobAttempts; attempt += 1) {
    const { created, known } = await storeBlobs(redis, blobs)
    const keys = [recordKey, ...created, ...known]
    const answer = await runCoded(redis, SCRIPTS.enqueue, keys, [...args, created.length])
    if (answer.code !== 'missing') return answer
  }
  throw new CofferdamError(
    'queue_unavailable',
    'Redis did not keep the large parts of the request, so nothing was accepted. Check its memory and its ' +
      'eviction policy.',
  )
}

/**
 * Stores the missing blobs for a short life, and returns the keys of those that it created and of those that
 * existed. Leaves the life of existing ones as it is: if one expires now, the script reports it missing.
 */
async function storeBlobs(
  redis: Redis,
  blobs: StoredRequest['blobs'],
): Promise<{ created: string[]; known: string[] }> {
  const entries = [...blobs].map(([sha, content]) => [keysOf(redis).blob + sha, content] as const)
  const exists = await Promise.all(entries.map(([key]) => redis.exists(key)))
  // NX, so that two calls never both believe that they created a blob, and none shortens a life.
  const stored = await Promise.all(
    entries.map(async ([key, content], index) =>
      exists[index] === 1 ? null : redis.set(key, content, 'PX', QUEUE_BOUNDS.unacceptedBlobTtlMs, 'NX'),
    ),
  )
  const keysWhere = (isCreated: boolean): string[] =>
    entries.flatMap(([key], index) => ((stored[index] === 'OK') === isCreated ? [key] : []))
  return { created: keysWhere(true), known: keysWhere(false) }
}
