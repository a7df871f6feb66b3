/** Retries the writes of a worker for a bounded time, so that they survive a restart of Redis. */
import { setTimeout as pause } from 'node:timers/promises'
import { CofferdamError, inTime } from '@cofferdam/contract'
import { QUEUE_BOUNDS } from './bounds.ts'
import { isRedisAway } from './connect.ts'

/** First pause between two tries. It doubles up to a second. */
const BACKOFF_MS = 50

/**
 * Runs an idempotent write until Redis answers it, for at most `writePatienceMs`. Connections of role
 * `worker` hold commands back while Redis is away, so one try usually suffices. Throws CofferdamError
 * `queue_unavailable` when the time is up, and passes on errors that are not about the connection.
 */
export async function patiently<T>(
  write: () => Promise<T>,
  patienceMs: number = QUEUE_BOUNDS.writePatienceMs,
): Promise<T> {
  const deadlineMs = performance.now() + patienceMs
  for (let backoffMs = BACKOFF_MS; ; backoffMs = Math.min(1000, backoffMs * 2)) {
    try {
      return await inTime(write(), Math.max(1, deadlineMs - performance.now()), late)
    } catch (error) {
      if (!isRedisAway(error)) throw error
      if (performance.now() + backoffMs >= deadlineMs)
        throw new CofferdamError('queue_unavailable', undefined, { cause: error })
      await pause(backoffMs)
    }
  }
}

const late = (): Error => new Error('Redis timed out: no answer in time')

/**
 * Like `patiently`, for a script that answers `ok`, `fenced`, `began` or `nobody`. Returns false for
 * `nobody`: nothing was written, and the worker still owns the execution. Throws CofferdamError fenced |
 * conflict.
 */
export async function fenced(write: () => Promise<{ code: string }>): Promise<boolean> {
  const { code } = await patiently(write)
  if (code === 'began') throw new CofferdamError('conflict', 'An execution that began is not put back.')
  if (code !== 'ok' && code !== 'nobody') throw new CofferdamError('fenced')
  return code === 'ok'
}
