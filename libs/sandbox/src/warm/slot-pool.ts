/**
 * Warm slots of one kind. A slot goes one way:
 *
 *   warming ──ready──▶ idle ──take──▶ bound (the caller's)         nothing comes back: single use
 *      │ failed          │ too old, surplus, kind unused, memory wanted, channel closed
 *      ▼                 ▼
 *    gone              destroyed
 *
 * Refill begins a moment after a slot was taken, because a start in parallel slows down the program that just
 * began. It is not put off for ever.
 */
import { newSandboxId } from '@cofferdam/contract'
import type { BackendLogger } from '../deps.ts'
import { createDemand } from './demand.ts'
import { createIdleSlots } from './idle-slots.ts'
import type { LeftSlots } from './left-slots.ts'
import { createLine } from './line.ts'
import { bytesOf, keyOf, type Slot, type SlotKind, type SlotSpec } from './slot.ts'
import type { DropReason, WarmDeps } from './warm-deps.ts'

/** Refill waits until a short program has run and answered, but not for long programs. */
const REFILL_AFTER_MS = 25
/**
 * The refill waits while any sandbox of the backend starts for a program. After this many cold starts it no
 * longer waits, because a burst of short programs would delay it for seconds.
 */
const COLD_IN_A_ROW = 4
/** Pause of a kind after a failed start, so that a broken image does not start containers in a loop. */
const REST_AFTER_FAILURE_MS = 5_000

export interface SlotPoolParts<S extends Slot> {
  backend: string
  kind: SlotKind
  /** Leaves nothing if it rejects. */
  start(spec: SlotSpec, signal: AbortSignal): Promise<S>
  deps: WarmDeps
  logger: BackendLogger
  /** Gets slots whose destroy failed. */
  left: LeftSlots
  /** Aborts when no more slots should warm. */
  closing: AbortSignal
  /**
   * True while a caller waits for the start of a slot of any kind. A parallel refill would slow that start by
   * half (measured).
   */
  isStarting(): boolean
  /** Registers background work, to wait for its end. */
  track(work: Promise<unknown>): void
}

export interface SlotPool<S extends Slot> {
  readonly kind: SlotKind
  readonly idle: number
  /** Time of the last request for one. */
  readonly lastArrivalMs: number
  /** A ready slot; null if there is none. */
  take(): S | null
  /** Whether a slot is warming that nobody waits for. */
  readonly hasFreeWarming: boolean
  /**
   * Waits, behind earlier callers, for a warming slot. Null if its start failed or the pool closes. Rejects
   * with the signal's reason.
   */
  nextWarming(signal: AbortSignal): Promise<S | null>
  /** Reports that a caller's own start has ended. `tookMs`: how long it took; null if it failed. */
  startedCold(tookMs: number | null): void
  /**
   * Refills a moment after a slot was taken. Does not wait for the end of its program, which may run for
   * long.
   */
  refillSoon(): void
  /** Keeps this many slots whatever the demand. */
  keep(floor: number): void
  readonly isKept: boolean
  drop(count: number, why: DropReason): void
  /** Discards slots that are too old or exceed the demand, then refills. */
  tend(): void
  /** Destroys waiting slots and starts no more. A caller that waits for a warming slot still gets it. */
  giveUp(): void
  /** Does what `giveUp` does, and tells all waiting callers to start their own slots. */
  close(): void
}

/** Empty until the first request or `keep`. */
export function createSlotPool<S extends Slot>(parts: SlotPoolParts<S>): SlotPool<S> {
  const { backend, kind, deps, logger, closing } = parts
  const settings = deps.config.pools
  const demand = createDemand(Date.now())
  const idle = createIdleSlots<S>(discard)
  /** Callers that wait for a warming slot, served in order. */
  const line = createLine<S | null>()
  let floor = 0
  let warming = 0
  /** Requested, and waiting for the refill gate. */
  let queued = 0
  /** Cold starts since the last refill began. */
  let colds = 0
  let restUntilMs = 0
  let soon: NodeJS.Timeout | null = null
  let isGivenUp = false

  const isOver = (): boolean => isGivenUp || closing.aborted

  function discard(slot: S, memory: Disposable, why: DropReason): void {
    deps.observe?.({ type: 'dropped', backend, why })
    parts.track(
      slot.destroy().then(
        () => memory[Symbol.dispose](),
        (error: unknown) => parts.left.add(slot, memory, error),
      ),
    )
  }

  function refill(): void {
    if (isOver() || !settings.enabled || Date.now() < restUntilMs) return
    const wanted = Math.min(settings.max_idle, Math.max(floor, demand.target(Date.now())))
    // A waiter takes a warming slot, so that slot does not count as available.
    while (idle.count + warming + queued - line.length < wanted) {
      if (parts.isStarting() && colds < COLD_IN_A_ROW) return
      const memory = deps.memory.tryAcquire(bytesOf(kind))
      if (memory === null) return
      queued += 1
      colds = 0
      parts.track(
        deps.refillGate.enter(async () => {
          queued -= 1
          if (isOver()) return memory[Symbol.dispose]()
          await warmOne(memory)
        }),
      )
    }
  }

  async function warmOne(memory: Disposable): Promise<void> {
    const startedMs = Date.now()
    warming += 1
    try {
      const slot = await parts.start({ ...kind, slotId: newSandboxId(), owner: deps.owner }, closing)
      demand.warmed(Date.now() - startedMs)
      deps.observe?.({ type: 'warmed', backend, ms: Date.now() - startedMs })
      shelve(slot, memory)
    } catch (error) {
      memory[Symbol.dispose]()
      if (closing.aborted) return
      restUntilMs = Date.now() + REST_AFTER_FAILURE_MS
      deps.observe?.({ type: 'warm_failed', backend })
      logger.warn({ err: error, backend, kind: keyOf(kind) }, 'a warm slot did not start')
      line.serve(null)
    } finally {
      warming -= 1
    }
  }

  function shelve(slot: S, memory: Disposable): void {
    const isUsable = slot.alive && !closing.aborted
    // Null tells the waiter to start its own.
    if (line.serve(isUsable ? slot : null) && isUsable) return memory[Symbol.dispose]()
    if (isUsable && !isGivenUp) idle.add(slot, memory)
    else discard(slot, memory, 'died')
  }

  function giveUp(): void {
    isGivenUp = true
    if (soon !== null) clearTimeout(soon)
    idle.drop(idle.count, 'idle')
  }

  return {
    kind,
    get idle() {
      return idle.count
    },
    get lastArrivalMs() {
      return demand.lastArrivalMs
    },
    take() {
      demand.arrived(Date.now())
      return idle.take()
    },
    get hasFreeWarming() {
      return warming > line.length
    },
    nextWarming: (signal) => line.join(signal),
    startedCold(tookMs) {
      if (tookMs !== null) demand.warmed(tookMs)
      colds += 1
    },
    refillSoon() {
      soon ??= setTimeout(() => {
        soon = null
        refill()
      }, REFILL_AFTER_MS).unref()
    },
    keep(wanted) {
      floor = wanted
      refill()
    },
    get isKept() {
      return floor > 0
    },
    drop: (count, why) => idle.drop(count, why),
    tend() {
      idle.dropOlder(settings.max_age_ms)
      idle.drop(idle.count - Math.max(floor, demand.target(Date.now())), 'surplus')
      refill()
    },
    giveUp,
    close() {
      giveUp()
      while (line.length > 0) line.serve(null)
    },
  }
}
