/**
 * The executions that a worker runs, each from its take to the end of `process`. Some have a BullMQ job,
 * whose lock is renewed here; others were assigned to this worker. In a drain, executions that have not begun
 * return to their backlog.
 */
import { StopReason, type WorkerId } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { keysOf } from './cell.ts'
import type { LaneJob, LaneSource, TakenJob } from './lane-source.ts'
import { runCoded, SCRIPTS } from './scripts.ts'
import { take, type TakeDeps } from './take.ts'
import type { HeldExecution } from './create-taken.ts'
import type { Taken } from './taken.ts'

/** The part of a pino logger that is used here. */
export interface QueueLogger {
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

export interface CarriedWork {
  /** Runs one job to the end of `process`. Calls `onProcess` once `process` has the job. Never rejects. */
  carry(this: void, taken: TakenJob, onProcess: () => void): Promise<void>
  /** Does the same for an assigned execution. */
  carryAssigned(this: void, held: HeldExecution): Promise<void>
  /** Makes `allOver` wait for this promise. */
  tracked<T>(this: void, carrying: Promise<T>): Promise<T>
  /** Jobs whose locks are renewed. Null while the execution is not taken yet. */
  readonly jobs: ReadonlyMap<LaneJob, HeldExecution | null>
  /** Executions that are taken and not over. */
  running(this: void): HeldExecution[]
  allOver(this: void): Promise<void>
}

export function createCarriedWork(deps: {
  workerId: WorkerId
  takenDeps: TakeDeps
  process: (taken: Taken) => Promise<void>
  isDraining: () => boolean
  /** Called when an execution that had begun is over. */
  onEnded: () => void
  log: QueueLogger | undefined
}): CarriedWork {
  const { workerId, takenDeps, isDraining, log } = deps
  const jobs = new Map<LaneJob, HeldExecution | null>()
  const withoutJob = new Set<HeldExecution>()
  const work = new Set<Promise<unknown>>()

  async function carryHeld(held: HeldExecution): Promise<void> {
    if (isDraining()) return await held.taken.giveBack()
    try {
      await deps.process(held.taken)
    } finally {
      if (held.began) deps.onEnded()
      if (isDraining() && !held.over && !held.began) await held.taken.giveBack()
    }
    if (!held.over)
      log?.error(
        { execution_id: held.taken.executionId, worker_id: workerId },
        'execution was left without an ending',
      )
  }

  const left = (error: unknown, what: object): void =>
    log?.error({ err: error, ...what, worker_id: workerId }, 'execution was left by an error')

  return {
    jobs,
    running: () => [...[...jobs.values()].filter((held) => held !== null), ...withoutJob],
    async carry({ job, reply }, onProcess) {
      jobs.set(job, null)
      try {
        const held = await take(job, takenDeps, reply)
        if (held === null) return
        jobs.set(job, held)
        const carried = carryHeld(held)
        onProcess()
        await carried
      } catch (error) {
        left(error, { job_id: job.jobId })
      } finally {
        jobs.delete(job)
      }
    },
    async carryAssigned(held) {
      withoutJob.add(held)
      try {
        await carryHeld(held)
      } catch (error) {
        left(error, { execution_id: held.taken.executionId })
      } finally {
        withoutJob.delete(held)
      }
    },
    tracked(carrying) {
      const done = carrying.finally(() => work.delete(done))
      work.add(done)
      return done
    },
    async allOver() {
      while (work.size > 0) await Promise.all(work)
    },
  }
}

/** Recoveries at once. Each asks Postgres and a backend, and every worker of the fleet recovers. */
const RECOVERIES_MAX = 8

/**
 * Ends executions that dead workers had begun, until `stop` aborts. Uses no slots, because they may all be
 * taken for hours.
 */
export function createRecovery(
  { carry, tracked }: CarriedWork,
  stop: AbortSignal,
): (sources: readonly LaneSource[]) => Promise<void> {
  let recovering = 0
  return async (sources) => {
    for (const source of sources)
      while (recovering < RECOVERIES_MAX && !stop.aborted) {
        const lost = await source.takeLost()
        if (lost === null) break
        recovering += 1
        void tracked(carry(lost, () => undefined))
          .then(() => source.finish(lost.job, false))
          .finally(() => (recovering -= 1))
      }
  }
}

/**
 * Renews the BullMQ locks of this worker's jobs, so that BullMQ does not redeliver them. A lock that expired
 * while Redis was away is acquired again if the fence shows that the worker still owns the execution.
 * Otherwise the execution's signal aborts with `lock_lost`.
 */
export async function renewLocks(
  redis: Redis,
  sources: readonly LaneSource[],
  held: ReadonlyMap<LaneJob, HeldExecution | null>,
  lockMs: number,
): Promise<void> {
  const failed = await Promise.all(
    sources.map((source) => source.renew([...held.keys()].filter(({ lane }) => lane === source.lane))),
  )
  for (const job of failed.flat()) {
    const execution = held.get(job)
    // The execution ended meanwhile, or it is not taken yet and `take` will find out.
    if (execution == null || execution.over) continue
    const { executionId, fence } = execution.taken
    const { code } = await runCoded(redis, SCRIPTS.relock, keysOf(redis).record + executionId, [
      fence,
      job.lane,
      job.jobId,
      job.token,
      lockMs,
    ])
    if (code === 'lost') execution.stop(new StopReason('lock_lost', 'the lock of this execution was lost'))
  }
}
