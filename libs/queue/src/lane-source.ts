/**
 * Fetches the jobs of one lane without BullMQ's own worker loop. So the worker fetches only when it has a
 * free slot. One timer renews the locks of all lanes, and the worker sees a lost lock at once (BullMQ's loop
 * would still run such a job). BullMQ wakes the worker and finds stalled jobs. Our script lua/next.lua ends a
 * job and takes the next one in one round trip instead of two, and gathers the calls of many slots
 * (docs/decisions/0006, 0017).
 */
import { Worker } from 'bullmq'
import type { Redis } from 'ioredis'
import { QUEUE_BOUNDS } from './bounds.ts'
import { BULLMQ, bullmqKey } from './bullmq-keys.ts'
import { cellOf, keysOf } from './cell.ts'
import type { Lane } from './keys.ts'
import { runCoded, SCRIPTS, text, type Reply } from './scripts.ts'
import type { WorkerKind } from './worker-kind.ts'

/** BullMQ redelivers a stalled job without limit, because our own record decides what happens to it. */
const MAX_STALLED = 1_000_000
/** Seconds of one blocking fetch. */
const BLOCK_SECONDS = 5
/** A blocking fetch that is this late is stuck, because a broken connection can lose its answer. */
const STUCK_MS = 1000

/** The BullMQ job of a release, locked by `token`. */
export interface LaneJob {
  lane: Lane
  jobId: string
  token: string
}

export interface TakenJob {
  job: LaneJob
  /** The rest of the script's reply, after its code. Null if only the job was taken, and no execution yet. */
  reply: Reply[] | null
}

export interface LaneSource {
  readonly lane: Lane
  /**
   * Resolves when there may be a job, after the block time, or after `stop`. Then call `take` or
   * `wakeAnother`.
   */
  wait(): Promise<void>
  /** Takes the next job. Returns null when there is none, or after `stop`. */
  take(): Promise<TakenJob | null>
  /** Takes the next job whose worker died after the program began, or returns null. Needs no slot. */
  takeLost(): Promise<TakenJob | null>
  /** Ends the job and, with `andNext`, takes the next one of the lane. Never rejects. */
  finish(job: LaneJob, andNext: boolean): Promise<TakenJob | null>
  wakeAnother(): Promise<void>
  /** Renews locks, and returns those that could not be renewed. */
  renew(jobs: readonly LaneJob[]): Promise<LaneJob[]>
  /** Ends a blocking fetch and takes no more jobs. `finish` and `renew` still work. */
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
    prefix: cellOf(redis).tag,
    name: workerId,
    autorun: false,
    lockDuration: lockMs,
    // The first check after a dead worker's lock expired finds its job, within a third of the lock time.
    stalledInterval: Math.ceil(lockMs / 3),
    maxStalledCount: MAX_STALLED,
    // Keep no finished jobs: our own record has the state, and a job's key then shows whether BullMQ still
    // has the job.
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  })
  worker.on('error', onError)
  redis.hset(bullmqKey(redis, lane, 'meta'), BULLMQ.metaMaxEvents, QUEUE_BOUNDS.bullEvents).catch(onError)
  worker.startStalledCheckTimer().catch(onError)
  const backend = worker.getBackend()
  const marker = bullmqKey(redis, lane, 'marker')
  /** With several kinds of workers, each kind has a marker of its own (lua/include/bullmq.lua). */
  const ownMarker = (): string => (kind().name === '' ? marker : `${marker}:${kind().name}`)
  let takes = 0
  let stopped = false

  /** `jobId` is '' when no job ends. */
  const next = async (jobId: string, token: string, andNext: boolean) =>
    await runCoded(redis, SCRIPTS.next, keysOf(redis).window, [
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

  /**
   * Fetches from a queue that was paused or limited through BullMQ. Only BullMQ's own fetch obeys these
   * settings.
   */
  async function fetchByBullmq(token: string): Promise<TakenJob | null> {
    const job = await worker.getNextJob(token, { block: false })
    return job?.id === undefined ? null : { job: { lane, jobId: job.id, token }, reply: null }
  }

  return {
    lane,
    async wait() {
      if (stopped) return
      try {
        await waitForMarker(backend, [marker, ownMarker()])
      } catch (error) {
        if (!stopped) throw error
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
      const { code, rest } = await runCoded(redis, SCRIPTS.takeLost, keysOf(redis).window, args)
      return code === 'taken' ? takenOf(rest, token) : null
    },
    async finish({ jobId, token }, andNext) {
      try {
        const { code, rest } = await next(jobId, token, andNext)
        return code === 'taken' ? takenOf(rest, token) : null
      } catch (error) {
        // The job was redelivered, or Redis is away. Its next owner or the sweep ends it.
        onError(error)
        return null
      }
    },
    async wakeAnother() {
      await redis.multi().zadd(marker, 0, '0').zadd(ownMarker(), 0, '0').exec()
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

/** Waits for one of the markers and removes it, or for the block time. BullMQ's wait knows only one. */
async function waitForMarker(backend: Blocking, [first, second]: readonly [string, string]): Promise<void> {
  // BullMQ's type covers all of its clients. Ours is ioredis.
  const client = (await backend.blockingClient) as Pick<Redis, 'bzpopmin' | 'status' | 'connect'> | undefined
  if (client === undefined) throw new Error('BullMQ has no blocking connection')
  if (client.status !== 'ready') {
    // The client reconnects by itself. Open it again only if it ended for good (a Sentinel lookup at the
    // wrong time). Do not await `connect`, because it never settles if it is cut off.
    if (client.status === 'end') client.connect().catch(() => undefined)
    throw new Error('the connection for blocking reads is closed')
  }
  const popped = client.bzpopmin(first, second, BLOCK_SECONDS)
  // Nobody awaits this promise after the timeout, so a late failure must not become an unhandled rejection.
  popped.catch(() => undefined)
  const late = Promise.withResolvers<'late'>()
  const timer = setTimeout(() => late.resolve('late'), BLOCK_SECONDS * 1000 + STUCK_MS)
  try {
    if ((await Promise.race([popped, late.promise])) !== 'late') return
    // While Redis is away, this command waits too. Then the connection is not stuck, and must not be cut off.
    if (client.status !== 'ready') return
    await backend.disconnectBlocking(false)
    client.connect().catch(() => undefined)
  } finally {
    clearTimeout(timer)
  }
}
