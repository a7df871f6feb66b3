/**
 * One work item and its lease.
 *
 *   queued ──ack──► starting ──first heartbeat──► active ──stop──► stopping ──stop──► stopped
 *      ▲               │                            │                  │
 *      └── lease over ─┴────────────────────────────┘                  └─ lease over ─► stopped
 *
 * Published (SDK resources/beta/environments/work.ts): the states, the timestamps, and that a heartbeat
 * compares its value unless the item is stopping or stopped. Not published, and assumed here: that the lease
 * begins with the ack, that an expired item forgets its ack and heartbeat, and that a stopping item then
 * stops.
 */
import type {
  BetaSelfHostedWork,
  BetaSelfHostedWorkHeartbeatResponse,
} from '@anthropic-ai/sdk/resources/beta/environments/work'
import { newId, stamp } from './stamps-and-ids.ts'
import { conflict, WireError } from './wire-errors.ts'

export type WorkState = BetaSelfHostedWork['state']
export type WorkData = BetaSelfHostedWork['data']

/** Bounds of `desired_ttl_seconds`, according to Qoder's documentation of the same API. */
const DESIRED_TTL = { min: 10, max: 600 }

export class WorkItem {
  readonly id = newId('work')
  readonly environmentId: string
  readonly data: WorkData
  readonly created_at = stamp()
  metadata: Record<string, string> = {}
  state: WorkState = 'queued'
  /** Every state with the time at which it began. */
  readonly history: { state: WorkState; at: string }[] = []
  /** How often a poll has answered with this item. */
  deliveries = 0
  /** When a poll last answered with it, in milliseconds. Null while nobody has it. */
  deliveredAtMs: number | null = null
  /** When it was queued last. */
  queuedAt = this.created_at
  acknowledged_at: string | null = null
  started_at: string | null = null
  latest_heartbeat_at: string | null = null
  stop_requested_at: string | null = null
  stopped_at: string | null = null
  #ttlSeconds = 0
  #lease: NodeJS.Timeout | undefined
  readonly #onChange: () => void

  /** `onChange` is called after every change of the state. */
  constructor(environmentId: string, data: WorkData, onChange: () => void) {
    this.environmentId = environmentId
    this.data = data
    this.#onChange = onChange
    this.history.push({ state: 'queued', at: this.created_at })
  }

  get isLive(): boolean {
    return this.state === 'queued' || this.state === 'starting' || this.state === 'active'
  }

  wire(secret: string | null = null): BetaSelfHostedWork {
    return {
      id: this.id,
      type: 'work',
      environment_id: this.environmentId,
      data: this.data,
      state: this.state,
      created_at: this.created_at,
      acknowledged_at: this.acknowledged_at,
      started_at: this.started_at,
      latest_heartbeat_at: this.latest_heartbeat_at,
      stop_requested_at: this.stop_requested_at,
      stopped_at: this.stopped_at,
      metadata: this.metadata,
      secret,
    }
  }

  /** A second ack of a running item changes nothing, because clients retry acks whose answer was lost. */
  ack(ttlSeconds: number): void {
    if (this.state === 'starting' || this.state === 'active') return
    if (this.state !== 'queued') throw conflict(`the work item is ${this.state}`)
    this.acknowledged_at = stamp()
    this.#enter('starting')
    this.#hold(ttlSeconds)
  }

  /**
   * Extends the lease. `expected` is the last heartbeat, `NO_HEARTBEAT` for none, or undefined for any.
   * Throws a 412 if it does not match, and a 409 for an item that nobody has acknowledged.
   */
  heartbeat(
    expected: string | undefined,
    desired: number | undefined,
    ttlSeconds: number,
  ): BetaSelfHostedWorkHeartbeatResponse {
    if (this.state === 'stopping' || this.state === 'stopped') return this.#beaten(false)
    if (expected !== undefined && expected !== (this.latest_heartbeat_at ?? 'NO_HEARTBEAT'))
      throw this.#lost()
    if (this.state === 'queued') throw conflict('the work item is queued: acknowledge it first')
    this.latest_heartbeat_at = stamp()
    if (this.state === 'starting') {
      this.started_at = this.latest_heartbeat_at
      this.#enter('active')
    }
    this.#hold(
      desired === undefined ? ttlSeconds : Math.min(Math.max(desired, DESIRED_TTL.min), DESIRED_TTL.max),
    )
    return this.#beaten(true)
  }

  /**
   * The first graceful stop only asks. A second one, or a forced one, ends the item. Throws a 409 if the item
   * has already stopped.
   */
  stop(force: boolean): void {
    if (this.state === 'stopped') throw conflict('the work item is stopped')
    this.stop_requested_at ??= stamp()
    if (force || this.state === 'stopping') this.#end()
    else this.#enter('stopping')
  }

  /** Lets the lease run out now. */
  expire(): void {
    if (this.state === 'stopping') return this.#end()
    if (this.state !== 'starting' && this.state !== 'active') return
    clearTimeout(this.#lease)
    this.acknowledged_at = null
    this.started_at = null
    this.latest_heartbeat_at = null
    this.deliveredAtMs = null
    this.queuedAt = stamp()
    this.#enter('queued')
  }

  /** Ends its timer. */
  close(): void {
    clearTimeout(this.#lease)
  }

  #end(): void {
    clearTimeout(this.#lease)
    this.stopped_at = stamp()
    this.#enter('stopped')
  }

  #enter(state: WorkState): void {
    this.state = state
    this.history.push({ state, at: stamp() })
    this.#onChange()
  }

  #hold(ttlSeconds: number): void {
    this.#ttlSeconds = ttlSeconds
    clearTimeout(this.#lease)
    this.#lease = setTimeout(() => this.expire(), ttlSeconds * 1000).unref()
  }

  #beaten(extended: boolean): BetaSelfHostedWorkHeartbeatResponse {
    return {
      type: 'work_heartbeat',
      last_heartbeat: this.latest_heartbeat_at ?? '',
      lease_extended: extended,
      state: this.state,
      ttl_seconds: this.#ttlSeconds,
    }
  }

  #lost(): WireError {
    const current_state = {
      state: this.state,
      last_heartbeat: this.latest_heartbeat_at,
      lease_extended: false,
      ttl_seconds: this.#ttlSeconds,
    }
    const details = { error_code: 'heartbeat_precondition_failed', current_state }
    const message = 'expected_last_heartbeat does not match the stored heartbeat'
    return new WireError(412, 'invalid_request_error', message, { details })
  }
}
