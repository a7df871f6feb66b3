/**
 * The clock of routines: one BullMQ job scheduler per enabled routine with a schedule, on a small queue of its own, and
 * the workers that turn its ticks into executions.
 *
 * Postgres is the truth. `reconcile` makes the schedulers what it says: at start, every minute, and after every change, so
 * a Redis that lost its data has them again within a minute. A tick that came while every worker was down fires once,
 * late, with the moment it was due: the first of those that were missed; the others are not made up for.
 */
import { isCofferdamError, routineIdSchema, type RoutineId } from '@cofferdam/contract'
import { TAG, type Producer } from '@cofferdam/queue'
import type { Routines, StoredRoutine } from '@cofferdam/store'
import { Queue, Worker, type Job } from 'bullmq'
import type { Redis } from 'ioredis'
import { closeWithin } from './close-within.ts'
import { fireRoutine, tickOf, type FireDeps } from './fire.ts'
import { inRounds } from './in-rounds.ts'
import { nextOf, patternOf, type Pattern } from './schedule.ts'

const NAME = 'routine-ticks'
const RECONCILE_MS = 60_000
/** Schedulers read at once. */
const PAGE = 500
/** A tick only asks Postgres and the queue: ten at once keep up with a thousand routines that are due together. */
const AT_ONCE = 10
/** With queue or store away a tick is tried again for about an hour: 1 s, 2 s, 4 s … at most a minute apart. */
const ATTEMPTS = 64
const BACKOFF_MAX_MS = 60_000
/** A next tick that lies so far back was lost with its job. */
const LOST_MS = 5 * 60_000

/** Where schedules are kept; for whoever changes routines. */
export interface Schedules extends AsyncDisposable {
  /** Makes one routine's scheduler what the routine says. Throws when Redis is away: `reconcile` makes up for it. */
  apply(routine: StoredRoutine): Promise<void>
  forget(id: RoutineId): Promise<void>
  /** Makes all of them what Postgres says; resolves with how many were changed. */
  reconcile(routines: Pick<Routines, 'scheduled'>): Promise<number>
}

const settings = {
  repeatStrategy: (afterMs: number, options: { pattern?: string; tz?: string }): number | undefined =>
    nextOf(readPattern(options), afterMs) ?? undefined,
  backoffStrategy: (attempts: number): number => Math.min(1000 * 2 ** (attempts - 1), BACKOFF_MAX_MS),
}

const readPattern = ({ pattern = '', tz }: { pattern?: string; tz?: string }): Pattern => ({
  pattern,
  ...(tz === undefined ? {} : { tz }),
})

/** `redis` is not closed. `onError` hears what BullMQ says on its own. */
export function createSchedules(redis: Redis, onError: (error: unknown) => void): Schedules {
  // Made when it is needed: most processes that could change routines never do.
  let made: Queue | null = null
  const queueOf = (): Queue => {
    if (made !== null) return made
    made = new Queue(NAME, {
      connection: redis,
      prefix: TAG,
      skipVersionCheck: true,
      settings,
      streams: { events: { maxLen: 100 } },
    })
    made.on('error', onError)
    return made
  }

  const apply = async (routine: StoredRoutine): Promise<void> => {
    const { routine_id: id, schedule, enabled } = routine
    if (!enabled || schedule === null) {
      await queueOf().removeJobScheduler(id)
      return
    }
    await queueOf().upsertJobScheduler(id, patternOf(schedule, Date.parse(routine.created_at)), {
      name: 'tick',
      opts: {
        attempts: ATTEMPTS,
        backoff: { type: 'custom' },
        removeOnComplete: { count: 0 },
        // What a day of failures leaves, for whoever looks.
        removeOnFail: { age: 24 * 3600, count: 1000 },
      },
    })
  }

  return {
    apply,
    async forget(id) {
      await queueOf().removeJobScheduler(id)
    },
    async reconcile(routines) {
      const there = new Map<string, Pattern & { next: number | undefined }>()
      for (let from = 0; ; from += PAGE) {
        const page = await queueOf().getJobSchedulers(from, from + PAGE - 1, true)
        for (const { key, pattern = '', tz, next } of page)
          there.set(key, { ...readPattern({ pattern, ...(tz === undefined ? {} : { tz }) }), next })
        if (page.length < PAGE) break
      }
      let changed = 0
      for (let after: RoutineId | null = null; ;) {
        const page: StoredRoutine[] = await routines.scheduled(after)
        for (const routine of page) {
          const has = there.get(routine.routine_id)
          there.delete(routine.routine_id)
          if (routine.schedule === null || isAsWanted(has, routine)) continue
          await apply(routine)
          changed += 1
        }
        const last = page.at(-1)
        if (last === undefined) break
        after = last.routine_id
      }
      for (const key of there.keys()) {
        await queueOf().removeJobScheduler(key)
        changed += 1
      }
      return changed
    },
    async [Symbol.asyncDispose]() {
      if (made !== null) await closeWithin(made.close())
    },
  }
}

function isAsWanted(
  has: (Pattern & { next: number | undefined }) | undefined,
  { schedule, created_at }: StoredRoutine,
): boolean {
  if (has === undefined || schedule === null) return false
  const want = patternOf(schedule, Date.parse(created_at))
  return has.pattern === want.pattern && has.tz === want.tz && (has.next ?? 0) > Date.now() - LOST_MS
}

export interface TickDeps extends FireDeps {
  /** Connection of role `worker`; BullMQ makes another one of it for blocking reads. Not closed. */
  redis: Redis
  routines: Routines
  producer: Producer
  onError: (error: unknown) => void
  /** Between two reconciliations; default a minute. */
  reconcileMs?: number
}

/** Takes ticks and keeps the schedules as Postgres says, until disposed. */
export function serveTicks(deps: TickDeps): AsyncDisposable {
  const schedules = createSchedules(deps.redis, deps.onError)
  const worker = new Worker(NAME, (job: Job) => onTick(job, deps, schedules), {
    connection: deps.redis,
    prefix: TAG,
    skipVersionCheck: true,
    settings,
    concurrency: AT_ONCE,
    lockDuration: 30_000,
    maxStalledCount: 1_000_000,
  })
  worker.on('error', deps.onError)
  const reconcile = (): Promise<void> =>
    schedules.reconcile(deps.routines).then(() => undefined, deps.onError)
  const rounds = inRounds(reconcile, deps.reconcileMs ?? RECONCILE_MS)
  return {
    async [Symbol.asyncDispose]() {
      await rounds[Symbol.asyncDispose]()
      await closeWithin(worker.close())
      await schedules[Symbol.asyncDispose]()
    },
  }
}

async function onTick(job: Job, deps: TickDeps, schedules: Schedules): Promise<void> {
  // `repeat:<scheduler>:<scheduled ms>`, as BullMQ names the job of a scheduler.
  const [, id, at] = /^repeat:(rtn_[0-9a-f]{32}):(\d+)$/.exec(job.id ?? '') ?? []
  const routineId = routineIdSchema.safeParse(id)
  if (!routineId.success || at === undefined) return
  try {
    const run = await fireRoutine(deps, routineId.data, tickOf(Number(at)))
    if (run === null) await schedules.forget(routineId.data)
  } catch (error) {
    deps.onError(error)
    // Tried again by BullMQ, which stores the message: ours are public, others may not be.
    throw new Error(isCofferdamError(error) ? error.message : 'the tick failed', { cause: error })
  }
}
