/** Figures for dashboards and metrics, read in one round trip. */
import type { Redis } from 'ioredis'
import { bullmqKey } from './bullmq-keys.ts'
import { keysOf } from './cell.ts'
import { LANES, type Lane } from './keys.ts'

export interface LaneStats {
  /** Due executions that no slot was given to yet. */
  queued: number
  delayed: number
  /** Outstanding: released to the workers or running there. */
  running: number
  /** How long the oldest queued execution has been due, milliseconds. Null when none is queued. */
  oldest_age_ms: number | null
  /** How many may be outstanding at once. */
  window: number
}

export interface QueueStats {
  lanes: Record<Lane, LaneStats>
  workers: { worker_id: string; slots: number; running: number; last_seen_ms: number }[]
  /** Attempt records that Postgres does not have yet. */
  outbox: number
  /** Results to post to a `callback_url`: due now, and waiting for another try. */
  callbacks: { due: number; retrying: number }
  /** Cells that did not answer, whose figures are missing. Undefined in a fleet of one cell. */
  cells_away?: number[]
}

/** BullMQ queue whose jobs post results to callback URLs (libs/routines/src/callbacks). */
const CALLBACKS = 'callbacks'

export async function readStats(redis: Redis): Promise<QueueStats> {
  const [time, window, beats, workers, outbox, callbacks, interactive, routine] = await Promise.all([
    redis.time(),
    redis.hgetall(keysOf(redis).window),
    redis.zrange(keysOf(redis).beats, 0, '-1', 'WITHSCORES'),
    redis.hgetall(keysOf(redis).workers),
    redis.xlen(keysOf(redis).outbox),
    Promise.all([
      redis.llen(keysOf(redis).callbacksDue),
      redis.llen(bullmqKey(redis, CALLBACKS, 'wait')),
      redis.llen(bullmqKey(redis, CALLBACKS, 'active')),
      redis.zcard(bullmqKey(redis, CALLBACKS, 'delayed')),
    ]),
    ...LANES.map((lane) =>
      Promise.all([
        redis.zcard(keysOf(redis).waiting + lane),
        redis.zcard(keysOf(redis).delayed + lane),
        redis.zcard(keysOf(redis).out + lane),
        redis.zrange(keysOf(redis).waiting + lane, 0, '0', 'WITHSCORES'),
      ]),
    ),
  ])
  const nowMs = Number(time[0]) * 1000 + Math.floor(Number(time[1]) / 1000)

  const laneStats = (figures: typeof interactive, lane: Lane): LaneStats => {
    const [queued = 0, delayed = 0, running = 0, oldest = []] = figures ?? []
    const since = oldest[1]
    return {
      queued,
      delayed,
      running,
      oldest_age_ms: since === undefined ? null : Math.max(0, nowMs - Number(since)),
      window: Number(window[lane] ?? 0),
    }
  }

  return {
    lanes: { interactive: laneStats(interactive, 'interactive'), routine: laneStats(routine, 'routine') },
    workers: beats.flatMap((worker, index) => {
      const state = workers[worker]
      if (index % 2 === 1 || state === undefined) return []
      const [, , , running, , slots] = state.split('|').map(Number)
      return [
        {
          worker_id: worker,
          slots: slots ?? 0,
          running: running ?? 0,
          last_seen_ms: Math.max(0, nowMs - Number(beats[index + 1])),
        },
      ]
    }),
    outbox,
    callbacks: { due: callbacks[0] + callbacks[1] + callbacks[2], retrying: callbacks[3] },
  }
}
