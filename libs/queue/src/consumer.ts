/**
 * The worker's side of the queue: takes executions while it has free slots and hands each to `process`, which ends
 * it through `Taken`. Around it: heartbeat, lock renewal, sweep and outbox, each in a loop of its own.
 *
 * Life of a consumer:   idle ──start──→ running ──drain──→ draining ──→ closed
 *   running   per lane one loop that takes from the run queue (fetching.ts) and one that serves the worker's hand (handed.ts); a slot is
 *             held from the take to the end of `process`. Neither takes anything while there is no room
 *             (room.ts). What a dead worker had begun is taken without a slot (`recover`): `process` only
 *             ends it.
 *   draining  no more fetches; what runs may finish within the grace; then all are told (signal `drain`). What
 *             `process` leaves un-begun then goes back to the head of its backlog. Heartbeats go on until all are over.
 *   closed    nothing is left running here; its heartbeat is gone.
 *
 * `process` that throws or returns without ending its execution costs three seconds: the BullMQ job is finished, the
 * sweep finds the execution without one and adds it again (one from the hand: the lock time). After ten such takes the execution is ended.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { StopReason, type AttemptRecord, type WorkerId } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { LOCK_MS, QUEUE_BOUNDS, SWEEP_MS } from './bounds.ts'
import { createCarriedWork } from './carried-work.ts'
import { createControlListener } from './control.ts'
import { isRedisAway } from './connect.ts'
import { fetchLoop } from './fetching.ts'
import { createFillable } from './fillable.ts'
import { createHanded } from './handed.ts'
import { beat, leave } from './heartbeat.ts'
import { KEYS, type Lane } from './keys.ts'
import { createLaneSource, type LaneSource } from './lane-source.ts'
import type { Offer } from './needs.ts'
import { drainOutbox } from './outbox.ts'
import type { QueueLogger } from './queue-logger.ts'
import { renewLocks } from './renew-locks.ts'
import { createRoomGate, type Room } from './room.ts'
import { run, SCRIPTS } from './scripts.ts'
import { createSelfFence } from './self-fence.ts'
import { createSlots } from './slots.ts'
import { sweep, type LostExecution } from './sweep.ts'
import { takeHanded, type TakeDeps } from './take.ts'
import type { Taken } from './taken.ts'
import { ANY_KIND, kindOf, type WorkerKind } from './worker-kind.ts'

export interface ConsumerDeps {
  /** Connection of role `worker`. Not closed by the consumer. */
  redis: Redis
  /** Connection of role `subscriber`; may be shared with a producer. Not closed by the consumer. */
  subscriber: Redis
  workerId: WorkerId
  /** Executions that run here at once. */
  slots: number
  lanes: readonly Lane[]
  /** Of these at most so many for routines where both lanes are served; default half. */
  routineSlots?: number
  /** Asked before each take; without it a free slot is enough. */
  room?: Room
  /**
   * What its backends can run now, one offer each; the same array while nothing changed. Left out:
   * everything.
   */
  offers?: () => readonly Offer[]
  /** Carries one execution to its ending. */
  process: (taken: Taken) => Promise<void>
  /** Stores records that were kept in Redis; must be idempotent. They are deleted when it resolves. */
  onOutbox: (records: AttemptRecord[]) => Promise<void>
  /** Hears of executions whose worker vanished and that BullMQ lost; they come back through `process`. */
  onLost?: (lost: LostExecution) => Promise<void>
  logger?: QueueLogger
  /** How long a worker may be silent before its executions are redelivered, milliseconds; default 9,000. */
  lockMs?: number
  /** After how long a silence of Redis what nobody would run again is stopped, too, milliseconds; default 60,000. */
  silenceMs?: number
  /** Period of heartbeat, sweep and outbox, milliseconds; default 1,000. */
  sweepMs?: number
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
  /** Since Redis last took a heartbeat, milliseconds; null before the first. */
  readonly beatAgeMs: number | null
}

/** How long each step of a drain may take (Redis may be away) before the consumer closes over it; what runs is redelivered. */
const ABORT_PATIENCE_MS = 10_000

/** Ended at once here for dead workers: each asks Postgres and a backend, and all workers do it. */
const RECOVERIES_MAX = 8

export function createConsumer(deps: ConsumerDeps): Consumer {
  const { redis, subscriber, workerId, lanes, lockMs = LOCK_MS, sweepMs = SWEEP_MS } = deps
  const log = deps.logger
  const onError = (error: unknown): void => {
    // While Redis is away every loop fails at every turn; the connection's state is told elsewhere.
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
  let recovering = 0
  let known: { offers?: readonly Offer[]; kind: WorkerKind } = { kind: ANY_KIND }
  const kind = (): WorkerKind => {
    const offers = deps.offers?.()
    if (offers !== known.offers)
      known = offers === undefined ? { kind: ANY_KIND } : { offers, kind: kindOf(offers) }
    return known.kind
  }
  const takenDeps: TakeDeps = {
    redis,
    workerId,
    kind,
    onError,
    onBegun: () => fillable.note((begun += 1)),
  }
  const { carry, carryHanded, tracked, running, jobs, allOver } = createCarriedWork({
    workerId,
    takenDeps,
    process: deps.process,
    isDraining: () => fetching.signal.aborted,
    onEnded: () => fillable.note((begun -= 1)),
    log,
  })

  const control = createControlListener(subscriber, workerId, {
    onCancel(id) {
      for (const held of running()) if (held.taken.executionId === id) held.stop(new StopReason('cancelled'))
    },
    onDue: () => void run(redis, SCRIPTS.pick, KEYS.window, []).catch(onError),
    onHanded: (lane) => handed.wake(lane),
  })

  const handed = createHanded({
    slots,
    room,
    take: (lane, turn) => takeHanded(lane, turn, takenDeps),
    carry: ({ held }) => tracked(held === null ? Promise.resolve() : carryHanded(held)),
    onError,
  })

  const fetchingDeps = { slots, room, handed, sharesSlots: lanes.length > 1, carry, tracked, onError }

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
    for (const lane of lanes) if (answer.handed[lane] > 0) handed.wake(lane)
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

  /** Ends what dead workers had begun, beside the slots: these may be full for hours. */
  async function recover(): Promise<void> {
    for (const source of sources)
      while (recovering < RECOVERIES_MAX && !fetching.signal.aborted) {
        const lost = await source.takeLost()
        if (lost === null) break
        recovering += 1
        void tracked(carry(lost, () => undefined))
          .then(() => source.finish(lost.job, false))
          .finally(() => (recovering -= 1))
      }
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
    sources = lanes.map((lane) => createLaneSource(redis, { lane, workerId, lockMs, kind }, onError))
    const loops = [
      every(sweepMs, heartbeat),
      every(sweepMs, sweepOnce),
      every(sweepMs, () => drainOutbox(redis, workerId, deps.onOutbox)),
      every(lockMs / 3, renew),
      every(sweepMs, recover),
      every(sweepMs, async () => fence.check(running())),
      ...sources.map((source) => fetchLoop(source, fetchingDeps, fetching.signal)),
      ...lanes.map((lane) => handed.serve(lane, fetching.signal)),
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
