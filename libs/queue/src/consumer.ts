/**
 * The worker's side of the queue. It takes executions while it has free slots and passes each to `process`,
 * which ends it through `Taken`.
 *
 *   idle ──start──→ running ──drain──→ draining ──→ closed
 *
 * While it runs, loops take from the run queue and from the executions assigned to this worker, except while
 * memory is short. A slot is held from the take to the end of `process`. Executions that a dead worker had
 * begun are taken without a slot, and `process` only ends them. A drain takes nothing more and waits for the
 * grace period. Then running executions get the signal `drain`, and those that have not begun return to their
 * backlog.
 *
 * If `process` returns without ending its execution, its BullMQ job still ends. The sweep adds a new job
 * three seconds later (for an assigned execution after the lock time). After ten such takes the execution is
 * ended.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { inTime, StopReason, type AttemptRecord, type WorkerId } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { LOCK_MS, QUEUE_BOUNDS, SWEEP_MS } from './bounds.ts'
import { createCarriedWork, createRecovery, renewLocks, type QueueLogger } from './carried-work.ts'
import { createControlListener } from './control.ts'
import { isRedisAway } from './connect.ts'
import { fetchLoop } from './fetching.ts'
import { createAssignedQueue } from './assigned.ts'
import { beat, leave } from './heartbeat.ts'
import { keysOf } from './cell.ts'
import type { Lane } from './keys.ts'
import { createLaneSource, type LaneSource } from './lane-source.ts'
import type { Offer } from './needs.ts'
import { drainOutbox } from './outbox.ts'
import { createFillable, createRoomGate, type Room } from './room.ts'
import { run, SCRIPTS } from './scripts.ts'
import { createSelfFence } from './self-fence.ts'
import { createSlots } from './slots.ts'
import { sweep, type LostExecution } from './sweep.ts'
import { takeAssigned, type TakeDeps } from './take.ts'
import type { Taken } from './taken.ts'
import { kindReader } from './worker-kind.ts'

export interface ConsumerDeps {
  /** Connection of role `worker`. Not closed by the consumer. */
  redis: Redis
  /** Connection of role `subscriber`; may be shared with a producer. Not closed by the consumer. */
  subscriber: Redis
  workerId: WorkerId
  /** Executions that run here at once. */
  slots: number
  lanes: readonly Lane[]
  /** Slots for routines if both lanes are served. Default: half. */
  routineSlots?: number
  /** Asked before each take. By default a free slot is enough. */
  room?: Room
  /**
   * What the backends can run now, one offer per backend. Must be the same array until it changes. By default
   * the worker takes every execution.
   */
  offers?: () => readonly Offer[]
  /** Runs one execution to its ending. */
  process: (taken: Taken) => Promise<void>
  /** Stores records that Redis kept. When it resolves, Redis deletes them. Must be idempotent. */
  onOutbox: (records: AttemptRecord[]) => Promise<void>
  /** Called for executions whose worker and BullMQ job are gone. They come back through `process`. */
  onLost?: (lost: LostExecution) => Promise<void>
  logger?: QueueLogger
  /** How long a worker may be silent before its executions are redelivered, milliseconds; default 9,000. */
  lockMs?: number
  /** Milliseconds of Redis' silence after which even executions without retries stop. Default 60,000. */
  silenceMs?: number
  /** Period of heartbeat, sweep and outbox, milliseconds; default 1,000. */
  sweepMs?: number
}

export interface Consumer extends AsyncDisposable {
  start(): void
  /**
   * Stops taking, waits up to `graceMs` for running executions, then aborts the rest (`drain`) and closes.
   * `process` ends those that have begun and gives back the others. The consumer gives back what `process`
   * left. Idempotent. Disposing drains without a grace period.
   */
  drain(options: { graceMs: number }): Promise<void>
  readonly running: number
  /** Milliseconds since Redis last accepted a heartbeat. Null before the first. */
  readonly beatAgeMs: number | null
}

/**
 * Limit for each step of a drain, because Redis may be away. Executions that have not stopped by then are
 * redelivered.
 */
const ABORT_PATIENCE_MS = 10_000

export function createConsumer(deps: ConsumerDeps): Consumer {
  const { redis, subscriber, workerId, lanes, lockMs = LOCK_MS, sweepMs = SWEEP_MS } = deps
  const log = deps.logger
  const onError = (error: unknown): void => {
    // While Redis is away, every loop fails each time. No log: the worker reports that it is not ready.
    if (!isRedisAway(error)) log?.warn({ err: error, worker_id: workerId }, 'queue upkeep failed')
  }
  const { silenceMs = QUEUE_BOUNDS.writePatienceMs } = deps
  const fence = createSelfFence({ lockMs, silenceMs, turnMs: sweepMs })
  const slots = createSlots(deps.slots, lanes, deps.routineSlots)
  const room = createRoomGate(deps.room)
  const fillable = createFillable(deps.slots, room)
  const fetching = new AbortController()
  const upkeep = new AbortController()
  let sources: LaneSource[] = []
  let drained: Promise<void> | null = null
  let lastBeatMs: number | null = null
  let begun = 0
  const kind = kindReader(deps.offers)
  const takenDeps: TakeDeps = {
    redis,
    workerId,
    kind,
    onError,
    onBegun: () => fillable.note((begun += 1)),
  }
  const work = createCarriedWork({
    workerId,
    takenDeps,
    process: deps.process,
    isDraining: () => fetching.signal.aborted,
    onEnded: () => fillable.note((begun -= 1)),
    log,
  })
  const { carry, carryAssigned, tracked, running, jobs, allOver } = work
  const recover = createRecovery(work, fetching.signal)

  const control = createControlListener(subscriber, workerId, {
    onCancel(id) {
      for (const held of running()) if (held.taken.executionId === id) held.stop(new StopReason('cancelled'))
    },
    onDue: () => void run(redis, SCRIPTS.pick, keysOf(redis).window, []).catch(onError),
    onAssigned: (lane) => assigned.wake(lane),
  })

  const assigned = createAssignedQueue({
    slots,
    room,
    take: (lane, turn) => takeAssigned(lane, turn, takenDeps),
    carry: ({ held }) => tracked(held === null ? Promise.resolve() : carryAssigned(held)),
    onError,
  })

  const fetchingDeps = { slots, room, assigned, sharesSlots: lanes.length > 1, carry, tracked, onError }

  async function heartbeat(isStopping = fetching.signal.aborted): Promise<void> {
    const held = running().filter(({ over }) => !over)
    const can = isStopping ? 0 : fillable.read()
    const sentMs = performance.now()
    const answer = await beat(redis, {
      workerId,
      fillable: can,
      interactive: slots.max('interactive', can),
      routine: slots.max('routine', can),
      running: held,
      lockMs,
      slots: isStopping ? 0 : deps.slots,
      kind: kind(),
    })
    lastBeatMs = performance.now()
    fence.renewed(
      held.filter(({ job }) => job.token === ''),
      sentMs,
    )
    const { lost, cancelled, dueMs } = answer
    for (const lane of lanes) if (answer.assigned[lane] > 0) assigned.wake(lane)
    for (const one of held) {
      if (lost.has(one.name)) one.stop(new StopReason('lock_lost', 'another worker owns this execution'))
      if (cancelled.has(one.name)) one.stop(new StopReason('cancelled'))
    }
    if (dueMs !== null) control.dueIn(dueMs)
  }

  async function renew(): Promise<void> {
    const sentMs = performance.now()
    const held = [...jobs.values()]
    await renewLocks(redis, sources, jobs, lockMs)
    fence.renewed(held, sentMs)
  }

  async function sweepOnce(): Promise<void> {
    for (const one of await sweep(redis, { sweepMs, lockMs })) {
      log?.warn(
        { execution_id: one.executionId, worker_id: one.worker },
        'execution lost its worker and its job',
      )
      await deps.onLost?.(one)
    }
  }

  /** Runs `turn` every `ms` until upkeep ends. A failed turn is repeated after the period. */
  async function every(ms: number, turn: () => Promise<void>): Promise<void> {
    while (!upkeep.signal.aborted) {
      await turn().catch(onError)
      await pause(ms, undefined, { signal: upkeep.signal }).catch(() => undefined)
    }
  }

  function start(): void {
    if (sources.length > 0 || fetching.signal.aborted) return
    control.start()
    sources = lanes.map((lane) => createLaneSource(redis, { lane, workerId, lockMs, kind }, onError))
    const loops = [
      every(sweepMs, heartbeat),
      every(sweepMs, sweepOnce),
      every(sweepMs, () => drainOutbox(redis, workerId, deps.onOutbox)),
      every(lockMs / 3, renew),
      every(sweepMs, () => recover(sources)),
      every(sweepMs, async () => fence.check(running())),
      ...sources.map((source) => fetchLoop(source, fetchingDeps, fetching.signal)),
      ...lanes.map((lane) => assigned.serve(lane, fetching.signal)),
    ]
    for (const loop of loops) void loop
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
    if (sources.length > 0) await within(leave(redis, workerId, lockMs).catch(onError), ABORT_PATIENCE_MS)
    await within(Promise.all(sources.map((source) => source.close().catch(onError))), ABORT_PATIENCE_MS)
  }

  return {
    start,
    drain: ({ graceMs }) => (drained ??= drain(graceMs)),
    get running() {
      return running().length
    },
    get beatAgeMs() {
      return lastBeatMs === null ? null : performance.now() - lastBeatMs
    },
    [Symbol.asyncDispose]: () => (drained ??= drain(0)),
  }
}

/** True when `work` ended within `ms`. */
const within = (work: Promise<unknown>, ms: number): Promise<boolean> =>
  inTime(work, ms, () => new Error('too late')).then(
    () => true,
    () => false,
  )
