/**
 * One execution that a worker has taken.
 *
 *   taken ──begin──→ begun ──settle──→ over
 *     │                └─────retry───→ over
 *     └──settle, defer, putOff, route, giveBack (only before begin) ─→ over
 *
 * Every write carries the fence of this take. Once another worker has taken the execution, writes fail with
 * `fenced` and the signal aborts with `lock_lost`.
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
import { readStreamed, type Streamed } from './live-events.ts'
import { createOwnership } from './ownership.ts'
import { numberOrNull, runCoded, SCRIPTS, text, type Script } from './scripts.ts'

export interface EndingInfo {
  /** Milliseconds that the tenant is charged for. */
  slotMs: number
  /** Set while Postgres is away. Keeps the record in Redis until `onOutbox` stored it. Default false. */
  outbox?: boolean
}

export interface Taken {
  readonly executionId: ExecutionId
  readonly request: ExecutionRequest
  /** Starts at 1. Stays the same when a former owner died. */
  readonly attempt: number
  readonly fence: number
  /** By Redis's clock, like all times here. */
  readonly enqueuedAtMs: number
  readonly takenAtMs: number
  readonly traceparent: string | null
  readonly lane: Lane
  /** Set when a former owner began this attempt and died. Kill its sandbox, then settle or retry. */
  readonly interrupted: Interrupted | null
  /**
   * True when a former owner died and may have recorded an ending without a begin, or when Redis restarted or
   * failed over since the execution was accepted and may have lost that it ran. Check the audit rows first.
   */
  readonly mayHaveRun: boolean
  /** Estimate of Redis's clock. Advances from the take, whatever this host's wall clock does. */
  nowMs(): number
  /** Aborts with StopReason cancelled | drain | lock_lost. */
  readonly signal: AbortSignal
  /**
   * Point of no return, before user code starts. Appends the `started` event. Repeating it is harmless.
   * Throws StopReason `cancelled` when the execution was cancelled before, and CofferdamError fenced |
   * queue_unavailable. `fenced` with `details.unbegun: true` means that this owner certainly has not begun
   * it, even by a call without an answer.
   */
  begin(ref: SandboxRef, place: Place): Promise<void>
  /** After begin: records, with best effort, that the sandbox received the program. Never rejects. */
  handOver(): Promise<void>
  /** Appends an output, notice or progress event, buffered, in order and with best effort. Ignores others. */
  emit(event: ExecutionEvent): void
  /**
   * Keeps the ref of its newest checkpoint, or what a session's sandbox holds of a workspace (KEYS.checkpoint,
   * KEYS.workspace). Returns the ref that it replaced, null if there is none. Throws CofferdamError fenced,
   * and what Redis throws.
   */
  keep(what: Kept, name: string, value: string, keptMs: number): Promise<string | null>
  /** Output of this attempt that was streamed so far, even by a former owner. Throws what Redis throws. */
  streamed(): Promise<Streamed>
  /**
   * Ends the execution in one step: stores the result, frees the slot, tells the waiters, and puts the record
   * into the outbox if asked to. Retries for 60 s while Redis is away. Throws CofferdamError fenced |
   * queue_unavailable.
   */
  settle(record: AttemptRecord, info: EndingInfo): Promise<void>
  /** Ends this attempt, which is audited, and queues the next one. Throws like settle. */
  retry(record: AttemptRecord, info: EndingInfo): Promise<void>
  /** Requeues it before begin. Its tenant gets no slot until then (Redis's clock). Throws like settle. */
  defer(untilMs: number, why: string): Promise<void>
  /** Requeues it before begin. It alone waits until then, as the next of its agent. Throws like settle. */
  putOff(untilMs: number, why: string): Promise<void>
  /**
   * Requeues it before begin for a worker that has `need` (`needOf` of the contract). Returns false when no
   * other worker of the fleet has it, and then this worker keeps and refuses it. Workers that left less than
   * a minute ago count, because they may come back. Throws like settle.
   */
  route(need: string): Promise<boolean>
  /** Requeues it before begin as the next of its agent. Throws like settle, and `conflict` after begin. */
  giveBack(): Promise<void>
}

export type Kept = 'checkpoint' | 'workspace'

/** The reply of the take. */
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
  /** The token is empty for an execution that was assigned to this worker: BullMQ has no job for it. */
  readonly job: LaneJob
  /** `<id> <fence>`, as heartbeat.lua names it. */
  readonly name: string
  readonly began: boolean
  /** True once it is settled, put back, or fenced off. */
  readonly over: boolean
  stop(reason: StopReason): void
}

export interface TakenDeps {
  redis: Redis
  workerId: WorkerId
  onError: (error: unknown) => void
  /** Called when an execution begins here. */
  onBegun: () => void
}

/** Creates the view of an execution that this worker has just taken. */
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
    async keep(what, name, value, keptMs) {
      if (owned.over) throw new CofferdamError('fenced')
      const { code, rest } = await script(SCRIPTS.keep, [executionId, fence, what, name, value, keptMs])
      if (code !== 'ok') throw new CofferdamError('fenced')
      return text(rest[0]) || null
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
      // A renewal at the same time as the ending finds that the lock was already removed with the job.
      if (!owned.finishing) owned.stop(reason)
    },
  }
}
