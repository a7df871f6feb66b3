/**
 * Fetches the jobs of one lane by hand: the worker then decides itself when it has a free slot, renews locks for all lanes in one
 * rhythm and sees a lost lock at once (BullMQ's own loop would go on running, queue-caps-audit.md §1.3). BullMQ wakes the worker;
 * jobs are taken and ended by a script of our own (lua/next.lua), which leaves the same in BullMQ's keys in one round trip instead
 * of two, and many in one.
 */
import { Worker } from 'bullmq'
import type { Redis } from 'ioredis'
import { QUEUE_BOUNDS } from './bounds.ts'
import { BULLMQ, bullmqKey } from './bullmq-keys.ts'
import { KEYS, TAG, type Lane } from './keys.ts'
import { runCoded, SCRIPTS, text, type Reply } from './scripts.ts'
import type { WorkerKind } from './worker-kind.ts'

/** A stalled job is redelivered for ever: what happens to it is decided from our own record. */
const MAX_STALLED = 1_000_000
/** Seconds of one blocking fetch. */
const BLOCK_SECONDS = 5
/** A fetch that is not answered so long after its time is stuck: a broken connection can swallow it. */
const STUCK_MS = 1000

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
  /** Resolves when there may be a job, at the latest after the block time, or after `stop`. Whoever was woken takes, or wakes another. */
  wait(): Promise<void>
  /** The next job; null when there is none, or after `stop`. */
  take(): Promise<TakenJob | null>
  /** The next job whose worker died after its program began; null when there is none. It needs no slot. */
  takeLost(): Promise<TakenJob | null>
  /** Ends the job; takes the lane's next one when `andNext` and there is one. Never rejects. */
  finish(job: LaneJob, andNext: boolean): Promise<TakenJob | null>
  wakeAnother(): Promise<void>
  /** Renews locks; returns those that could not be renewed. */
  renew(jobs: readonly LaneJob[]): Promise<LaneJob[]>
  /** No more jobs: ends a blocking fetch. `finish` and `renew` still work. */
  stop(): Promise<void>
  close(): Promise<void>
}

export function createLaneSource(
  redis: Redis,
  { lane, workerId, lockMs, kind }: { lane: Lane; workerId: string; lockMs: number; kind: () => WorkerKind },
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
    // The record is the truth: a finished job leaves nothing, so its key shows whether BullMQ still carries it.
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  })
  worker.on('error', onError)
  redis.hset(bullmqKey(lane, 'meta'), BULLMQ.metaMaxEvents, QUEUE_BOUNDS.bullEvents).catch(onError)
  worker.startStalledCheckTimer().catch(onError)
  const backend = worker.getBackend()
  const mark = bullmqKey(lane, 'marker')
  /** Where workers of one kind are woken while there are several (lua/include/bullmq.lua). */
  const ownMark = (): string => (kind().name === '' ? mark : `${mark}:${kind().name}`)
  let takes = 0
  let stopped = false

  /** `jobId` is '' when none ends. */
  const next = async (jobId: string, token: string, andNext: boolean) =>
    await runCoded(redis, SCRIPTS.next, KEYS.window, [
      lane,
      jobId,
      token,
      andNext && !stopped ? 1 : 0,
      workerId,
      lockMs,
      kind().name,
    ])

  const takenOf = (rest: Reply[], token: string): TakenJob => ({
    job: { lane, jobId: text(rest.at(-1)), token },
    reply: rest,
  })

  /** What somebody paused or limited through BullMQ is BullMQ's to fetch. */
  async function fetchByBullmq(token: string): Promise<TakenJob | null> {
    const job = await worker.getNextJob(token, { block: false })
    return job?.id === undefined ? null : { job: { lane, jobId: job.id, token }, reply: null }
  }

  return {
    lane,
    async wait() {
      if (stopped) return
      try {
        await marked(backend, [mark, ownMark()])
      } catch (error) {
        if (stopped) return
        // As BullMQ's own loop does: a Sentinel that is asked meanwhile can leave this connection closed.
        await backend.reconnectBlocking()
        throw error
      }
    },
    async take() {
      if (stopped) return null
      const token = `${worker.id}:${(takes += 1)}`
      const { code, rest } = await next('', token, true)
      if (code === 'limited') return await fetchByBullmq(token)
      return code === 'taken' ? takenOf(rest, token) : null
    },
    async takeLost() {
      if (stopped) return null
      const token = `${worker.id}:lost:${(takes += 1)}`
      const args = [lane, token, workerId, kind().name, lockMs]
      const { code, rest } = await runCoded(redis, SCRIPTS.takeLost, KEYS.window, args)
      return code === 'taken' ? takenOf(rest, token) : null
    },
    async finish({ jobId, token }, andNext) {
      try {
        const { code, rest } = await next(jobId, token, andNext)
        return code === 'taken' ? takenOf(rest, token) : null
      } catch (error) {
        // Redelivered, or gone with Redis: its next owner or the sweep sees to it.
        onError(error)
        return null
      }
    },
    async wakeAnother() {
      await redis.multi().zadd(mark, 0, '0').zadd(ownMark(), 0, '0').exec()
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
      await backend.disconnectBlocking(false)
    },
    async close() {
      await worker.close(true)
    },
  }
}

type Blocking = ReturnType<Worker['getBackend']>

/**
 * Resolves when one of the marks is set, which it takes away, or after the block time. BullMQ's own wait
 * knows one mark only.
 */
async function marked(backend: Blocking, [first, second]: readonly [string, string]): Promise<void> {
  // BullMQ types it for every client that it knows; ours is ioredis.
  const client = (await backend.blockingClient) as Pick<Redis, 'bzpopmin'> | undefined
  if (client === undefined) throw new Error('BullMQ has no blocking connection')
  const popped = client.bzpopmin(first, second, BLOCK_SECONDS)
  // When it is late, its answer is for nobody.
  popped.catch(() => undefined)
  const late = Promise.withResolvers<'late'>()
  const timer = setTimeout(() => late.resolve('late'), BLOCK_SECONDS * 1000 + STUCK_MS)
  try {
    if ((await Promise.race([popped, late.promise])) !== 'late') return
    await backend.disconnectBlocking(false)
    await backend.reconnectBlocking()
  } finally {
    clearTimeout(timer)
  }
}
