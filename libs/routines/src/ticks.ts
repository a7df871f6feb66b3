/**
 * The clock of routines: one BullMQ job scheduler per enabled routine with a schedule, on a separate queue,
 * and the workers that turn its ticks into executions.
 *
 * Postgres is authoritative. `reconcile` updates the schedulers from it at start and every minute, and the
 * API calls `apply` or `forget` after every change. A Redis that lost its data therefore has them again
 * within a minute. If all workers were down, the first missed tick fires late, with its original time, and
 * the other missed ticks are dropped.
 */
import { isCofferdamError, routineIdSchema, type RoutineId } from '@cofferdam/contract'
import { cellOf, type CellDirectory, type Producer } from '@cofferdam/queue'
import type { Routines, StoredRoutine } from '@cofferdam/store'
import { Queue, Worker, type Job } from 'bullmq'
import type { Redis } from 'ioredis'
import { fireRoutine, tickOf, type FireDeps } from './fire.ts'
import { closeWithin, inRounds } from './in-rounds.ts'
import { nextOf, patternOf, type Pattern } from './schedule.ts'

const NAME = 'routine-ticks'
const RECONCILE_MS = 60_000
/** Schedulers read per call. */
const PAGE = 500
/** A tick only calls Postgres and the queue. Ten at once keep up with a thousand routines due together. */
const AT_ONCE = 10
/** While the queue or the store is down, a tick is retried after 1 s, 2 s, 4 s … 60 s, for about an hour. */
const ATTEMPTS = 64
const BACKOFF_MAX_MS = 60_000
/**
 * If a scheduler's next tick is this far in the past, its job was lost, so the scheduler is written again.
 */
const LOST_MS = 5 * 60_000

/** The schedulers of all routines. */
export interface Schedules extends AsyncDisposable {
  /** Updates the scheduler of one routine. Throws when Redis does not answer. `reconcile` repeats it. */
  apply(routine: StoredRoutine): Promise<void>
  forget(id: RoutineId): Promise<void>
  /** Updates all schedulers from Postgres. Resolves with the number of changes. */
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

/**
 * `redis` is not closed. `onError` gets BullMQ's background errors. Only routines of tenants that `directory`
 * has in the cell of `redis` get a scheduler. Default: all.
 */
export function createSchedules(
  redis: Redis,
  onError: (error: unknown) => void,
  directory?: CellDirectory,
): Schedules {
  const isHere = async ({ tenant_id }: StoredRoutine): Promise<boolean> =>
    directory === undefined || (await directory.cellOf(tenant_id)) === cellOf(redis).number
  // Created on first use, because most processes never change routines.
  let made: Queue | null = null
  const queueOf = (): Queue => {
    if (made !== null) return made
    made = new Queue(NAME, {
      connection: redis,
      prefix: cellOf(redis).tag,
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
        // Keeps the failed jobs of a day for inspection.
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
          if (!(await isHere(routine))) continue
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
  /** Connection of role `worker`, which BullMQ duplicates for blocking reads. Not closed. */
  redis: Redis
  routines: Routines
  producer: Producer
  /** Which tenants live in the cell of `redis`. Default: all. */
  directory?: CellDirectory
  onError: (error: unknown) => void
  /** Time between reconciliations. Default: a minute. */
  reconcileMs?: number
}

/** Handles ticks and reconciles the schedules until disposed. */
export function serveTicks(deps: TickDeps): AsyncDisposable {
  const schedules = createSchedules(deps.redis, deps.onError, deps.directory)
  const worker = new Worker(NAME, (job: Job) => onTick(job, deps, schedules), {
    connection: deps.redis,
    prefix: cellOf(deps.redis).tag,
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
  // BullMQ's name of a scheduler's job: `repeat:<scheduler>:<scheduled ms>`.
  const [, id, at] = /^repeat:(rtn_[0-9a-f]{32}):(\d+)$/.exec(job.id ?? '') ?? []
  const routineId = routineIdSchema.safeParse(id)
  if (!routineId.success || at === undefined) return
  try {
    const run = await fireRoutine(deps, routineId.data, tickOf(Number(at)))
    if (run === null) await schedules.forget(routineId.data)
  } catch (error) {
    deps.onError(error)
    // BullMQ retries the job and stores the message. Only messages of our own errors are public.
    throw new Error(isCofferdamError(error) ? error.message : 'the tick failed', { cause: error })
  }
}
