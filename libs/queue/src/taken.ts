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
import type {
  AttemptRecord,
  ExecutionEvent,
  ExecutionId,
  ExecutionRequest,
  SandboxRef,
} from '@cofferdam/contract'
import type { Interrupted, Place } from './begun-mark.ts'
import type { Lane } from './keys.ts'
import type { Streamed } from './live-events.ts'

export interface EndingInfo {
  /** Milliseconds of slot use that the scheduler charges to the tenant's virtual time. */
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
  /** By Redis's clock, like all times of this interface. */
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
   * it, not even by an earlier call whose answer was lost.
   */
  begin(ref: SandboxRef, place: Place): Promise<void>
  /** After begin: records, with best effort, that the sandbox received the program. Never rejects. */
  handOver(): Promise<void>
  /** Appends an output, notice or progress event, buffered, in order and with best effort. Ignores others. */
  emit(event: ExecutionEvent): void
  /** If it returns a promise, emit more output only after that has resolved. The promise never rejects. */
  room(): Promise<void> | undefined
  /**
   * Keeps a value for the next owner: the ref of the newest checkpoint, or what the session's sandbox holds
   * of a workspace (`checkpoint` and `workspace` of QueueKeys). Returns the ref that it replaced, null if
   * there is none. Throws CofferdamError fenced, and what Redis throws.
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
  /**
   * Requeues the execution before begin. Its tenant gets no further slot until `untilMs` (Redis's time).
   * Throws like settle.
   */
  defer(untilMs: number, why: string): Promise<void>
  /**
   * Requeues the execution before begin as the next one of its agent. Only this execution waits until
   * `untilMs`. Throws like settle.
   */
  putOff(untilMs: number, why: string): Promise<void>
  /**
   * Requeues the execution before begin for a worker that has `need` (`needOf` in needs.ts). Returns false
   * when no other kind of worker has `need`. This worker then keeps the execution and refuses it. Workers
   * that left less than a minute ago count, because they may come back. Throws like settle.
   */
  route(need: string): Promise<boolean>
  /**
   * Requeues the execution before begin as the next one of its agent. Throws like settle, and `conflict`
   * after begin.
   */
  giveBack(): Promise<void>
}

export type Kept = 'checkpoint' | 'workspace'
