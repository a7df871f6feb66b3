/**
 * The worker's side of the queue: takes executions while it has free slots and hands each to `process`, which ends
 * it through `Taken`. Around it: heartbeat, lock renewal, sweep and outbox, each in a loop of its own.
 *
 * Life of a consumer:   idle ──start──→ running ──drain──→ draining ──→ closed
 *   running   one fetch loop per lane; a slot is held from fetch to the end of `process`.
 *   draining  no more fetches; what runs may finish within the grace; then all are told (signal `drain`). What
 *             `process` leaves un-begun then goes back to the head of its backlog. Heartbeats go on until all are over.
 *   closed    nothing is left running here; its heartbeat is gone.
 *
 * `process` that throws or returns without ending its execution costs three seconds: the BullMQ job is finished, the
 * sweep finds the execution without one and adds it again. After ten such takes the execution is ended.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { StopReason, type AttemptRecord, type WorkerId } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { LOCK_MS, SWEEP_MS } from './bounds.ts'
import { createControlListener } from './control.ts'
import { isRedisAway } from './connect.ts'
import { beat, leave } from './heartbeat.ts'
import { KEYS, type Lane } from './keys.ts'
import { createLaneSource, type LaneJob, type LaneSource } from './lane-source.ts'
import { drainOutbox } from './outbox.ts'
import { renewLocks } from './renew-locks.ts'
import { createRunQueue, releasesOf } from './run-queue.ts'
import { run, SCRIPTS } from './scripts.ts'
import { createSlots } from './slots.ts'
import { sweep, type LostExecution } from './sweep.ts'
import { take } from './take.ts'
import type { HeldExecution, Taken } from './taken.ts'

/** The part of a pino logger that is used here. */
export interface QueueLogger {
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

export interface ConsumerDeps {
  /** Connection of role `worker`. Not closed by the consumer. */
  redis: Redis
  /** Connection of role `subscriber`; may be shared with a producer. Not closed by the consumer. */
  subscriber: Redis
  workerId: WorkerId
  /** Executions that run here at once. */
  slots: number
  lanes: readonly Lane[]
  /** Carries one execution to its ending. */
  process: (taken: Taken) => Promise<void>
  /** Stores records that were kept in Redis; must be idempotent. They are deleted when it resolves. */
  onOutbox: (records: AttemptRecord[]) => Promise<void>
  /** Hears of executions whose worker vanished and that BullMQ lost; they come back through `process`. */
  onLost?: (lost: LostExecution) => Promise<void>
  logger?: QueueLogger
  /** How long a worker may be silent before its executions are redelivered, milliseconds; default 15,000. */
  lockMs?: number
  /** Period of heartbeat, sweep and outbox, milliseconds; default 1,000. */
  sweepMs?: number
  /** Wall clock, milliseconds; default Date.now. */
  now?: () => number
}

export interface Consumer extends AsyncDisposable {
  start(): void
  /**
   * Stops taking, lets run for `graceMs`, then aborts the rest (`drain`): `process` gives back what has not begun
   * (the consumer does where it did not) and ends what has. Then closes. Idempotent; disposing is a drain without
   * grace.
   */
  drain(options: { graceMs: number }): Promise<void>
  readonly running: number
}

/** How long each step of a drain may take (Redis may be away) before the consumer closes over it; what runs is redelivered. */
const ABORT_PATIENCE_MS = 10_000
/** Executions that one slot runs in a row on a lane before it is offered to the other lane. */
const STREAK = 16

export function createConsumer(deps: ConsumerDeps): Consumer {
  const { redis, subscriber, workerId, lanes, lockMs = LOCK_MS, sweepMs = SWEEP_MS, now = Date.now } = deps
  const log = deps.logger
  const onError = (error: unknown): void => {
    // While Redis is away every loop fails at every turn; the connection's state is told elsewhere.
    if (!isRedisAway(error)) log?.warn({ err: error, worker_id: workerId }, 'queue upkeep failed')
  }
  const slots = createSlots(deps.slots, lanes)
  const runQueue = createRunQueue(redis, onError)
  const fetching = new AbortController()
  const upkeep = new AbortController()
  const heldJobs = new Map<LaneJob, HeldExecution | null>()
  const work = new Set<Promise<void>>()
  let sources: LaneSource[] = []
  let drained: Promise<void> | null = null

  const running = (): HeldExecution[] => [...heldJobs.values()].filter((held) => held !== null)

  const control = createControlListener(subscriber, {
    onCancel(id) {
      for (const held of running()) if (held.taken.executionId === id) held.stop(new StopReason('cancelled'))
    },
    onDue: () =>
      void run(redis, SCRIPTS.pick, KEYS.window, [])
        .then((releases) => runQueue.add(releasesOf(releases)))
        .catch(onError),
  })

  async function fetchLoop(source: LaneSource): Promise<void> {
    while (!fetching.signal.aborted) {
      await slots.free(source.lane, fetching.signal)
      if (fetching.signal.aborted) return
      try {
        const job = await source.next()
        if (job === null) continue
        const carrying = carryAll(source, job).finally(() => work.delete(carrying))
        work.add(carrying)
      } catch (error) {
        onError(error)
        await pause(100)
      }
    }
  }

  /** Holds a slot, runs the job and then the lane's next ones. */
  async function carryAll(source: LaneSource, first: LaneJob): Promise<void> {
    heldJobs.set(first, null)
    // Both lanes may have fetched for the last slot: then the later one waits here, its lock being renewed.
    await slots.acquire(source.lane)
    let job: LaneJob | null = first
    try {
      for (let turn = 1; job !== null; turn += 1) {
        heldJobs.set(job, null)
        await carry(job)
        heldJobs.delete(job)
        job = await source.finish(job, (turn < STREAK || lanes.length === 1) && !fetching.signal.aborted)
      }
    } finally {
      slots.release(source.lane)
    }
  }

  /** Runs one job to the end of `process`. Never rejects. */
  async function carry(job: LaneJob): Promise<void> {
    try {
      const held = await take(job, { redis, runQueue, workerId, now, onError })
      if (held === null) return
      if (fetching.signal.aborted) return await held.taken.giveBack()
      heldJobs.set(job, held)
      try {
        await deps.process(held.taken)
      } finally {
        if (fetching.signal.aborted && !held.over && !held.began) await held.taken.giveBack()
      }
      if (!held.over)
        log?.error(
          { execution_id: held.taken.executionId, worker_id: workerId },
          'execution was left without an ending',
        )
    } catch (error) {
      log?.error({ err: error, job_id: job.jobId, worker_id: workerId }, 'execution was left by an error')
    }
  }

  async function heartbeat(isStopping = fetching.signal.aborted): Promise<void> {
    const held = running().filter(({ over }) => !over)
    const { releases, lost, cancelled, dueMs } = await beat(redis, {
      workerId,
      slots: isStopping ? 0 : deps.slots,
      interactive: isStopping ? 0 : slots.max('interactive'),
      routine: isStopping ? 0 : slots.max('routine'),
      running: held,
      lockMs,
    })
    runQueue.add(releases)
    for (const one of held) {
      if (lost.has(one.name)) one.stop(new StopReason('lock_lost', 'another worker owns this execution'))
      if (cancelled.has(one.name)) one.stop(new StopReason('cancelled'))
    }
    if (dueMs !== null) control.dueIn(dueMs)
  }

  async function sweepOnce(): Promise<void> {
    const { releases, lost } = await sweep(redis, { sweepMs, lockMs })
    runQueue.add(releases)
    for (const one of lost) {
      log?.warn(
        { execution_id: one.executionId, worker_id: one.worker },
        'execution lost its worker and its job',
      )
      await deps.onLost?.(one)
    }
  }

  /** Runs `turn` every `ms` until upkeep ends; a failing turn only costs its period. */
  async function every(ms: number, turn: () => Promise<void>): Promise<void> {
    while (!upkeep.signal.aborted) {
      await turn().catch(onError)
      await pause(ms, undefined, { signal: upkeep.signal }).catch(() => undefined)
    }
  }

  function start(): void {
    if (sources.length > 0 || fetching.signal.aborted) return
    control.start()
    sources = lanes.map((lane) => createLaneSource(redis, { lane, workerId, lockMs }, onError))
    const loops = [
      every(sweepMs, heartbeat),
      every(sweepMs, sweepOnce),
      every(sweepMs, () => drainOutbox(redis, workerId, deps.onOutbox)),
      every(lockMs / 3, () => renewLocks(redis, sources, heldJobs, lockMs)),
      ...sources.map(fetchLoop),
    ]
    for (const loop of loops) void loop
  }

  const allOver = async (): Promise<void> => {
    while (work.size > 0) await Promise.all(work)
  }

  async function drain(graceMs: number): Promise<void> {
    fetching.abort()
    await within(Promise.all(sources.map((source) => source.stop().catch(onError))), ABORT_PATIENCE_MS)
    if (sources.length > 0) heartbeat().catch(onError)
    if (!(await within(allOver(), graceMs))) {
      for (const held of running()) held.stop(new StopReason('drain'))
      await within(allOver(), ABORT_PATIENCE_MS)
    }
    upkeep.abort()
    control.stop()
    if (sources.length > 0)
      await within(
        leave(redis, workerId, lockMs)
          .then((releases) => runQueue.add(releases))
          .catch(onError),
        ABORT_PATIENCE_MS,
      )
    await within(runQueue.close(), ABORT_PATIENCE_MS)
    await within(Promise.all(sources.map((source) => source.close().catch(onError))), ABORT_PATIENCE_MS)
  }

  return {
    start,
    drain: ({ graceMs }) => (drained ??= drain(graceMs)),
    get running() {
      return running().length
    },
    [Symbol.asyncDispose]: () => (drained ??= drain(0)),
  }
}

/** True when `work` was done within `ms`. */
async function within(work: Promise<unknown>, ms: number): Promise<boolean> {
  const timer = new AbortController()
  const late = pause(ms, false, { signal: timer.signal }).catch(() => false)
  try {
    return await Promise.race([work.then(() => true), late])
  } finally {
    timer.abort()
  }
}
