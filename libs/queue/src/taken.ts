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
  type Isolation,
  type SandboxRef,
  type WorkerId,
} from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { endedTail, noticeTail } from './ending.ts'
import { createEventBuffer } from './event-buffer.ts'
import { fenced, patiently } from './fenced-write.ts'
import { KEYS, type Lane } from './keys.ts'
import type { LaneJob } from './lane-source.ts'
import { numberOrNull, runCoded, SCRIPTS, type Script } from './scripts.ts'

/** Where and how an attempt runs. */
export interface Place {
  backend: string
  isolation: string
  /** When admission charged the attempt, so that its audit row can say so after a crash; null when not charged. */
  chargedAtMs?: number | null
}

/** What `begin` recorded for whoever takes the execution after a crash. */
export interface Interrupted {
  attempt: number
  worker: WorkerId
  ref: SandboxRef | null
  backend: string
  isolation: Isolation
  chargedAtMs: number | null
  /** When that owner took it (Redis' clock). */
  startedAtMs: number
}

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
   * Appends a live event: buffered, in order, best effort. `queued`, `started` and `ended` are written by the
   * scripts that make them true, and are ignored here.
   */
  emit(event: ExecutionEvent): void
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
  /** Put back un-begun, next in line of its agent; repeating it is harmless. Throws like settle, `conflict` after begin. */
  giveBack(): Promise<void>
}

export interface TakenFacts {
  executionId: ExecutionId
  request: ExecutionRequest
  attempt: number
  fence: number
  enqueuedAtMs: number
  takenAtMs: number
  traceparent: string | null
  interrupted: Interrupted | null
  mayHaveRun: boolean
  job: LaneJob
}

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

export function createTaken(facts: TakenFacts, deps: TakenDeps): HeldExecution {
  const { redis, workerId } = deps
  const { executionId, fence, attempt } = facts
  const abort = new AbortController()
  const madeMs = performance.now()
  const nowMs = (): number => Math.round(facts.takenAtMs + performance.now() - madeMs)
  let began = false
  let over = false
  let givenBack = false
  /** Its last write is under way, and only that write's answer tells whether it was still ours. */
  let finishing = false

  const stop = (reason: StopReason): void => {
    if (!abort.signal.aborted) abort.abort(reason)
  }

  const script = (which: Script, args: readonly (string | number)[]) =>
    runCoded(redis, which, KEYS.record + executionId, args)

  const write = async (which: Script, args: readonly (string | number)[]): Promise<void> => {
    if (over) throw new CofferdamError('fenced', 'This attempt was settled or put back already.')
    try {
      await fenced(() => script(which, args))
    } catch (error) {
      if (error instanceof CofferdamError && error.code === 'fenced') {
        over = true
        stop(new StopReason('lock_lost', 'another worker owns this execution'))
      }
      throw error
    }
  }

  const finishWith = async (which: Script, args: readonly (string | number)[]): Promise<void> => {
    finishing = true
    try {
      await events.flush()
      await write(which, args)
      over = true
    } finally {
      finishing = false
    }
  }

  const requeue = (
    mode: 'retry' | 'defer' | 'later' | 'back',
    { slotMs = 0, waitMs = 0, notice = '', record = '' },
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
    ])
  }

  const events = createEventBuffer(async (batch, call) => {
    await script(SCRIPTS.append, [executionId, fence, call, ...batch])
  }, deps.onError)

  const taken: Taken = {
    executionId,
    request: facts.request,
    attempt,
    fence,
    enqueuedAtMs: facts.enqueuedAtMs,
    takenAtMs: facts.takenAtMs,
    traceparent: facts.traceparent,
    lane: facts.job.lane,
    interrupted: facts.interrupted,
    mayHaveRun: facts.mayHaveRun,
    nowMs,
    signal: abort.signal,
    async begin(ref, { backend, isolation, chargedAtMs = null }) {
      if (over) throw new CofferdamError('fenced')
      const startedAtMs = facts.takenAtMs
      const mark = JSON.stringify({
        attempt,
        fence,
        worker: workerId,
        ref,
        backend,
        isolation,
        chargedAtMs,
        startedAtMs,
      })
      const started = JSON.stringify({ attempt, backend, isolation }).slice(1)
      const { code, rest } = await patiently(() =>
        script(SCRIPTS.begin, [executionId, fence, mark, started, attempt]),
      )
      if (code === 'ok') {
        if (!began) deps.onBegun()
        began = true
        return
      }
      const reason =
        code === 'cancelled'
          ? new StopReason('cancelled')
          : new StopReason('lock_lost', 'fenced off at begin')
      if (code !== 'cancelled') over = true
      stop(reason)
      if (code === 'cancelled') throw reason
      throw new CofferdamError('fenced', undefined, { details: { unbegun: numberOrNull(rest[0]) === 1 } })
    },
    emit(event) {
      if (!over && (event.type === 'output' || event.type === 'notice' || event.type === 'progress'))
        events.emit(event)
    },
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
    giveBack: async () => {
      if (givenBack) return
      await requeue('back', {})
      givenBack = true
    },
  }

  return {
    taken,
    job: facts.job,
    name: `${executionId} ${fence}`,
    get began() {
      return began
    },
    get over() {
      return over
    },
    stop: (reason) => {
      // A renewal that crosses the settlement finds the lock gone with the job.
      if (!finishing) stop(reason)
    },
  }
}
