/** Keeps the BullMQ locks of what runs here. The fence decides about ownership; the lock keeps BullMQ from redelivering. */
import { StopReason } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { KEYS } from './keys.ts'
import type { LaneJob, LaneSource } from './lane-source.ts'
import { runCoded, SCRIPTS } from './scripts.ts'
import type { HeldExecution } from './taken.ts'

/**
 * Renews all locks. One that expired while Redis was away is taken back when the execution is still ours;
 * otherwise its signal aborts with `lock_lost`.
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
    // Finished meanwhile, or not taken yet: then `take` finds out.
    if (execution == null || execution.over) continue
    const { executionId, fence } = execution.taken
    const { code } = await runCoded(redis, SCRIPTS.relock, KEYS.record + executionId, [
      fence,
      job.lane,
      job.jobId,
      job.token,
      lockMs,
    ])
    if (code === 'lost') execution.stop(new StopReason('lock_lost', 'the lock of this execution was lost'))
  }
}
