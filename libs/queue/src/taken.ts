/**
 * One execution in the hands of a worker.
 *
 *   taken ──begin──→ begun ──settle──→ over          every write carries the fence of this take: when another
 *     │                │  └──retry───→ over          worker took the execution since, it fails with `fenced` and
 *     ├──settle────────┼─────────────→ over          the signal aborts with `lock_lost`
 *     └──defer, putOff, giveBack (only before begin) ─→ over
 */
import {
  CofferdamError,
  StopReason,
  type AttemptRecord,
  type ExecutionEvent,
  type ExecutionId,
  type ExecutionRequest,
  type SandboxRef,
  type WorkerId,
} from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { markOf, type Interrupted, type Place } from './begun-mark.ts'
import { endedTail, noticeTail } from './ending.ts'
import { createEventBuffer } from './event-buffer.ts'
import { patiently } from './fenced-write.ts'
import { KEYS, type Lane } from './keys.ts'
import type { LaneJob } from './lane-source.ts'
import { createOwnership } from './ownership.ts'
import { numberOrNull, runCoded, SCRIPTS, type Script } from './scripts.ts'
import { readStreamed, type Streamed } from './streamed-output.ts'

export interface EndingInfo {
  /** What the tenant is charged for, milliseconds. */
  slotMs: number
  /** Postgres is away: keep the record in Redis until some worker's `onOutbox` has stored it. Default false. */
  outbox?: boolean
}

export interface Taken {
  readonly executionId: ExecutionId
  readonly request: ExecutionRequest
  /** Starts at 1; the same again when an earlier owner vanished. */
  readonly attempt: number
  readonly fence: number
  /** Redis' clock, like all times here. */
  readonly enqueuedAtMs: number
  readonly takenAtMs: number
  readonly traceparent: string | null
  readonly lane: Lane
  /** Set when an earlier owner began this attempt and vanished: kill its sandbox, then settle worker_lost or retry. */
  readonly interrupted: Interrupted | null
  /**
   * An earlier owner vanished, and may have recorded an ending that needs no beginning (refused, not provisioned); or Redis
   * restarted or failed over since this was accepted, and may have forgotten that it ran. Whoever has the audit rows looks
   * there before it runs.
   */
  readonly mayHaveRun: boolean
  /** Redis' clock now, as far as it is known here: it goes on from the take, whatever happens to this host's wall clock. */
  nowMs(): number
  /** Aborts with StopReason cancelled | drain | lock_lost. */
  readonly signal: AbortSignal
  /**
   * Point of no return, before user code starts; appends the `started` event. Repeating it is harmless.
   * Throws StopReason `cancelled` when the execution was cancelled before, CofferdamError fenced | queue_unavailable.
   * `fenced` with `details.unbegun: true`: surely this owner has not begun it, also by no call whose answer was lost.
   */
  begin(ref: SandboxRef, place: Place): Promise<void>
  /**
   * After begin: the program was handed over to its sandbox. Best effort: where it gets lost, a crash of this
   * worker leaves nothing that shows that the program ran. Never rejects.
   */
  handOver(): Promise<void>
  /**
   * Appends a live event: buffered, in order, best effort. `queued`, `started` and `ended` are written by the
   * scripts that make them true, and are ignored here.
   */
  emit(event: ExecutionEvent): void
  /**
   * What this attempt printed as far as it was streamed, also by an owner that vanished. Throws what Redis
   * throws.
   */
  streamed(): Promise<Streamed>
  /**
   * Ends the execution in one step: result visible, slot freed, waiters told, record in the outbox if asked for.
   * Retried for 60 s while Redis is away. Throws CofferdamError fenced | queue_unavailable.
   */
  settle(record: AttemptRecord, info: EndingInfo): Promise<void>
  /** This attempt is over (and audited); runs again as the next one through the fair queue. Throws like settle. */
  retry(record: AttemptRecord, info: EndingInfo): Promise<void>
  /** Put back un-begun; its tenant gets no slot until `untilMs` (Redis' clock; add jitter). Throws like settle. */
  defer(untilMs: number, why: string): Promise<void>
  /** Put back un-begun; it alone waits until `untilMs`, then it is next in line of its agent. Throws like settle. */
  putOff(untilMs: number, why: string): Promise<void>
  /**
   * Put back un-begun for a worker that has what it needs; false when no other worker of the fleet has
   * (`needOf` of the contract), and it still is this worker's to refuse. Workers that left less than a minute
   * ago count: they may be back. Throws like settle.
   */
  route(need: string): Promise<boolean>
  /** Put back un-begun, next in line of its agent; repeating it is harmless. Throws like settle, `conflict` after begin. */
  giveBack(): Promise<void>
}

/** What the take told of it. */
export type TakenFacts = Pick<
  Taken,
  | 'executionId'
  | 'request'
  | 'attempt'
  | 'fence'
  | 'enqueuedAtMs'
  | 'takenAtMs'
  | 'traceparent'
  | 'interrupted'
  | 'mayHaveRun'
> & { job: LaneJob }

/** The consumer's view of a taken execution. */
export interface HeldExecution {
  readonly taken: Taken
  /** Its token is empty when it came from the worker's hand: then BullMQ has no job of it. */
  readonly job: LaneJob
  /** `<id> <fence>`, as heartbeat.lua names it. */
  readonly name: string
  readonly began: boolean
  /** Settled, put back, or fenced off. */
  readonly over: boolean
  stop(reason: StopReason): void
}

export interface TakenDeps {
  redis: Redis
  workerId: WorkerId
  onError: (error: unknown) => void
  /** Hears that one began here. */
  onBegun: () => void
}

/** Owned by this worker from now on; its clock goes on from the take. */
export function createTaken({ job, ...facts }: TakenFacts, deps: TakenDeps): HeldExecution {
  const { executionId, fence, attempt } = facts
  const madeMs = performance.now()
  const nowMs = (): number => Math.round(facts.takenAtMs + performance.now() - madeMs)
  const owned = createOwnership()
  let began = false
  let givenBack = false

  const script = (which: Script, args: readonly (string | number)[]) =>
    runCoded(deps.redis, which, KEYS.record + executionId, args)

  const events = createEventBuffer(async (batch, call, keep) => {
    await script(SCRIPTS.append, [executionId, fence, call, keep, ...batch])
  }, deps.onError)

  const finishWith = (which: Script, args: readonly (string | number)[]): Promise<void> =>
    owned.finish(
      () => events.flush(),
      () => script(which, args),
    )

  const requeue = (
    mode: 'retry' | 'defer' | 'later' | 'back' | 'route',
    { slotMs = 0, waitMs = 0, notice = '', record = '', need = '' },
  ): Promise<void> => {
    if (began && mode !== 'retry')
      return Promise.reject(new CofferdamError('conflict', 'An execution that began is not put back.'))
    return finishWith(SCRIPTS.requeue, [
      executionId,
      fence,
      mode,
      Math.round(slotMs),
      Math.round(waitMs),
      notice === '' ? '' : noticeTail(notice),
      record,
      need,
    ])
  }

  const taken: Taken = {
    ...facts,
    lane: job.lane,
    nowMs,
    signal: owned.signal,
    async begin(ref, place) {
      if (owned.over) throw new CofferdamError('fenced')
      const mark = markOf(facts, deps.workerId, ref, place)
      const { backend, isolation } = place
      const started = JSON.stringify({ attempt, backend, isolation }).slice(1)
      const { code, rest } = await patiently(() =>
        script(SCRIPTS.begin, [executionId, fence, mark, started, attempt]),
      )
      if (code === 'cancelled') {
        const reason = new StopReason('cancelled')
        owned.stop(reason)
        throw reason
      }
      if (code !== 'ok') {
        owned.lose('fenced off at begin')
        throw new CofferdamError('fenced', undefined, { details: { unbegun: numberOrNull(rest[0]) === 1 } })
      }
      if (!began) deps.onBegun()
      began = true
    },
    async handOver() {
      if (began && !owned.over) await script(SCRIPTS.handover, [executionId, fence]).catch(deps.onError)
    },
    emit(event) {
      if (!owned.over && (event.type === 'output' || event.type === 'notice' || event.type === 'progress'))
        events.emit(event)
    },
    streamed: () => readStreamed(deps.redis, executionId, attempt),
    settle: (record, { slotMs, outbox = false }) =>
      finishWith(SCRIPTS.settle, [
        executionId,
        fence,
        JSON.stringify(record.result),
        endedTail(record),
        Math.round(slotMs),
        outbox ? JSON.stringify(record) : '',
      ]),
    retry: (record, { slotMs, outbox = false }) =>
      requeue('retry', {
        slotMs,
        notice: `Attempt ${attempt} ended ${record.result.ending}; it runs again.`,
        record: outbox ? JSON.stringify(record) : '',
      }),
    defer: (untilMs, why) => requeue('defer', { waitMs: Math.max(0, untilMs - nowMs()), notice: why }),
    putOff: (untilMs, why) => requeue('later', { waitMs: Math.max(0, untilMs - nowMs()), notice: why }),
    async route(need) {
      await requeue('route', { need, notice: 'Waits for a worker that can run it.' })
      return owned.over
    },
    giveBack: async () => {
      if (givenBack) return
      await requeue('back', {})
      givenBack = true
    },
  }

  return {
    taken,
    job,
    name: `${executionId} ${fence}`,
    get began() {
      return began
    },
    get over() {
      return owned.over
    },
    stop: (reason) => {
      // A renewal that crosses the settlement finds the lock gone with the job.
      if (!owned.finishing) owned.stop(reason)
    },
  }
}
