/**
 * Fetches the jobs of one lane from BullMQ by hand (its pattern "manually fetching jobs"): the worker then decides
 * itself when it has a free slot, renews locks for all lanes in one rhythm and sees a lost lock at once (BullMQ's
 * own loop would go on running, queue-caps-audit.md §1.3). A busy slot goes from job to job by a script of our own
 * (lua/next.lua), which leaves the same in BullMQ's keys in one round trip instead of two.
 */
import { Worker, type Job } from 'bullmq'
import type { Redis } from 'ioredis'
import { QUEUE_BOUNDS } from './bounds.ts'
import { KEYS, TAG, type Lane } from './keys.ts'
import { runCoded, SCRIPTS, text, type Reply } from './scripts.ts'

/** A stalled job is redelivered for ever: what happens to it is decided from our own record. */
const MAX_STALLED = 1_000_000
/** Seconds of one blocking fetch. */
const BLOCK_SECONDS = 5

/** A BullMQ job of a release, locked by `token`. */
export interface LaneJob {
  lane: Lane
  jobId: string
  token: string
}

/** A job to carry. */
export interface TakenJob {
  job: LaneJob
  /** What take.lua answers behind its code; null when the execution was not taken along with the job. */
  reply: Reply[] | null
}

export interface LaneSource {
  readonly lane: Lane
  /** The next job; null when none came within the block time, or after `stop`. */
  next(): Promise<LaneJob | null>
  /** Ends the job; takes the lane's next one when `andNext` and there is one. Never rejects. */
  finish(job: LaneJob, andNext: boolean): Promise<TakenJob | null>
  /** Gives a job that was not taken yet back for whoever has room. Never rejects. */
  putBack(job: LaneJob): Promise<void>
  /** Renews locks; returns those that could not be renewed. */
  renew(jobs: readonly LaneJob[]): Promise<LaneJob[]>
  /** No more jobs: ends a blocking fetch. `finish` and `renew` still work. */
  stop(): Promise<void>
  close(): Promise<void>
}

export function createLaneSource(
  redis: Redis,
  {
    lane,
    workerId,
    lockMs,
    life,
  }: { lane: Lane; workerId: string; lockMs: number; life: () => Promise<string> },
  onError: (error: unknown) => void,
): LaneSource {
  const worker = new Worker(lane, null, {
    connection: redis,
    prefix: TAG,
    name: workerId,
    autorun: false,
    lockDuration: lockMs,
    // A dead worker's job is found by the first check after its lock ran out: at most a third of the lock time later.
    stalledInterval: Math.ceil(lockMs / 3),
    maxStalledCount: MAX_STALLED,
    drainDelay: BLOCK_SECONDS,
    // The record is the truth: a finished job leaves nothing, so its key shows whether BullMQ still carries it.
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  })
  worker.on('error', onError)
  redis.hset(`${KEYS.bull}${lane}:meta`, 'opts.maxLenEvents', QUEUE_BOUNDS.bullEvents).catch(onError)
  worker.startStalledCheckTimer().catch(onError)
  const jobs = new Map<string, Job>()
  let fetches = 0
  let stopped = false

  const track = (job: Job | undefined, token: string): LaneJob | null => {
    if (job?.id === undefined) return null
    jobs.set(token, job)
    return { lane, jobId: job.id, token }
  }

  const newToken = (): string => `${worker.id}:${(fetches += 1)}`

  return {
    lane,
    async next() {
      if (stopped) return null
      const token = newToken()
      return track(await worker.getNextJob(token, { block: true }), token)
    },
    async finish({ jobId, token }, andNext) {
      jobs.delete(token)
      try {
        const { code, rest } = await runCoded(redis, SCRIPTS.next, KEYS.window, [
          lane,
          jobId,
          token,
          andNext && !stopped ? 1 : 0,
          workerId,
          lockMs,
          await life(),
        ])
        return code === 'taken' ? { job: { lane, jobId: text(rest.at(-1)), token }, reply: rest } : null
      } catch (error) {
        // Redelivered, or gone with Redis: its next owner or the sweep sees to it.
        onError(error)
        return null
      }
    },
    async putBack({ token }) {
      const job = jobs.get(token)
      jobs.delete(token)
      try {
        await job?.moveToWait(token)
        // BullMQ 6.7 wakes no one for a prioritised job that comes back; an idle worker would block for seconds.
        await redis.zadd(`${KEYS.bull}${lane}:marker`, 0, '0')
      } catch (error) {
        // Its lock runs out, and BullMQ redelivers it.
        onError(error)
      }
    },
    async renew(held) {
      if (held.length === 0) return []
      const failed = await worker.extendJobLocks(
        held.map(({ jobId }) => jobId),
        held.map(({ token }) => token),
        lockMs,
      )
      return held.filter(({ jobId }) => failed.includes(jobId))
    },
    async stop() {
      stopped = true
      await worker.pause(true)
      await worker.getBackend().disconnectBlocking(false)
    },
    async close() {
      await worker.close(true)
    },
  }
}
