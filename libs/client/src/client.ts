/// <reference lib="esnext.disposable" preserve="true" />
/** What every client does with executions, whether over HTTP or over Redis inside the fleet's network. */
import type { Accepted, ExecutionEvent, ExecutionRequest, ExecutionResult, ExecutionState } from './wire.ts'

export interface WaitOptions {
  /** How long to wait for the ending, in milliseconds. Default 300,000. */
  timeoutMs?: number
  /** Stops waiting with the signal's reason. The execution continues. */
  signal?: AbortSignal
}

export type RunOptions = WaitOptions

export interface EnqueueOptions {
  /** A `wait` for this execution follows. Over Redis it then needs no round trip. Default false. */
  awaitReply?: boolean
  /** Over HTTP: ends the call with the signal's reason. The execution may have been accepted. */
  signal?: AbortSignal
}

export interface StreamOptions {
  /** ID of the last event that was seen. Default: from the start. */
  after?: string
  signal?: AbortSignal
}

/** A live event. `id` is opaque: pass the last one as `after` to continue. */
export interface StoredEvent {
  id: string
  event: ExecutionEvent
}

export type CancelStatus = 'cancelled' | 'cancelling' | 'ended' | 'not_found'

/**
 * Every method throws CofferdamError (compare its `code`): `invalid_request`, `queue_full`,
 * `idempotency_conflict`, `queue_unavailable` (Redis or the API does not answer), and over HTTP also
 * `unauthenticated`, `forbidden` and other errors of the API. The execution's trace continues the active
 * OpenTelemetry span.
 */
export interface Client extends AsyncDisposable {
  /** Accepts an execution and returns its ID at once. */
  enqueue(input: ExecutionRequest, options?: EnqueueOptions): Promise<Accepted>
  /**
   * Enqueues and waits for the result. A failure of the program is part of the result, never an exception.
   * Throws `wait_timeout` (details: execution_id) when it did not end in time.
   */
  run(input: ExecutionRequest, options?: RunOptions): Promise<ExecutionResult>
  /** The result. Null when it did not end in time. Throws `not_found`. */
  wait(id: ExecutionId, options?: WaitOptions): Promise<ExecutionResult | null>
  /** Live events, until `ended` or until the signal aborts. Survives reconnects. Throws `not_found`. */
  stream(id: ExecutionId, options?: StreamOptions): AsyncIterable<StoredEvent>
  /** The current state. Null when the execution is unknown. */
  get(id: ExecutionId): Promise<ExecutionState | null>
  cancel(id: ExecutionId, reason?: string): Promise<CancelStatus>
  /** Closes the connections, as disposing does. */
  close(): Promise<void>
}

export type ExecutionId = Accepted['execution_id']

/** Longer than a wait in the queue plus the default hard deadline (30 s). */
export const DEFAULT_WAIT_MS = 300_000
