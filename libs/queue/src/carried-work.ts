/**
 * The executions that a worker carries, each from its take to the end of `process`, by both ways on which they come: jobs of
 * BullMQ, whose locks are renewed, and the worker's hand.
 *
 * Once `isDraining`, what `process` has not begun goes back to the head of its backlog.
 */
import type { WorkerId } from '@cofferdam/contract'
import type { LaneJob, TakenJob } from './lane-source.ts'
import type { QueueLogger } from './queue-logger.ts'
import { take, type TakeDeps } from './take.ts'
import type { HeldExecution, Taken } from './taken.ts'

export interface CarriedWork {
  /** Runs one job to the end of `process`, which has it when `onProcess` is called. Never rejects. */
  carry(this: void, taken: TakenJob, onProcess: () => void): Promise<void>
  /** The same for an execution from the hand. */
  carryHanded(this: void, held: HeldExecution): Promise<void>
  /** Lets `allOver` wait for it. */
  tracked<T>(this: void, carrying: Promise<T>): Promise<T>
  /** Jobs whose lock is to be renewed; null while they are not taken yet. */
  readonly jobs: ReadonlyMap<LaneJob, HeldExecution | null>
  /** All that was taken and is not over. */
  running(this: void): HeldExecution[]
  allOver(this: void): Promise<void>
}

export function createCarriedWork(deps: {
  workerId: WorkerId
  takenDeps: TakeDeps
  process: (taken: Taken) => Promise<void>
  isDraining: () => boolean
  /** One that had begun is over. */
  onEnded: () => void
  log: QueueLogger | undefined
}): CarriedWork {
  const { workerId, takenDeps, isDraining, log } = deps
  const jobs = new Map<LaneJob, HeldExecution | null>()
  const fromHand = new Set<HeldExecution>()
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
    running: () => [...[...jobs.values()].filter((held) => held !== null), ...fromHand],
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
    async carryHanded(held) {
      fromHand.add(held)
      try {
        await carryHeld(held)
      } catch (error) {
        left(error, { execution_id: held.taken.executionId })
      } finally {
        fromHand.delete(held)
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
