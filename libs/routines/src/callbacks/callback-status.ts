/** The delivery status of an execution's callback, written by the worker that posts it. */
import { CALLBACK_STATES, type CallbackStatus, type ExecutionId } from '@cofferdam/contract'
import { keysOf } from '@cofferdam/queue'
import type { Redis } from 'ioredis'

/** How long the status is kept. */
const KEPT_MS = 7 * 24 * 3_600_000

const keyOf = (redis: Redis, id: ExecutionId): string => keysOf(redis).callbackStatus + id

/** Null when the execution has no callback, or its status has expired. */
export async function readCallbackStatus(redis: Redis, id: ExecutionId): Promise<CallbackStatus | null> {
  const [noted, url] = await Promise.all([
    redis.hmget(keyOf(redis, id), 'state', 'attempts', 'last_status', 'last_error'),
    redis.hget(keysOf(redis).record + id, 'cb'),
  ])
  const [written, attempts, status, error] = noted
  const state = CALLBACK_STATES.find((one) => one === written) ?? (url === null ? null : 'waiting')
  if (state === null) return null
  return {
    state,
    attempts: Number(attempts ?? 0),
    last_status: status == null || status === '' ? null : Number(status),
    last_error: error == null || error === '' ? null : error,
  }
}

export async function writeCallbackStatus(
  redis: Redis,
  id: ExecutionId,
  status: CallbackStatus,
): Promise<void> {
  const { state, attempts, last_status, last_error } = status
  await redis
    .multi()
    .hset(keyOf(redis, id), {
      state,
      attempts,
      last_status: last_status ?? '',
      last_error: last_error ?? '',
    })
    .pexpire(keyOf(redis, id), KEPT_MS)
    .exec()
}
