/**
 * Warm slots by kind. A slot goes one way:
 *
 *   warming ──ready──▶ idle ──take──▶ bound (the caller's)         nothing comes back: single use
 *      │ failed          │ too old, surplus, kind unused, memory wanted, channel closed
 *      ▼                 ▼
 *    gone              destroyed
 *
 * take() never waits longer than a start of its own would: it gets an idle slot, or one that was warming already and
 * that no earlier caller waits for, or starts one. Refill begins a moment after a slot was taken, because a
 * start in parallel is what makes the running one slow; it is not put off for ever.
 */
import { newSandboxId, type WorkerId } from '@cofferdam/contract'
import { SILENT, type BackendLogger } from '../deps.ts'
import type { PoolSettings } from './config.ts'
import { createDemand, type Demand } from './demand.ts'
import { bytesOf, keyOf, type Slot, type SlotKind, type SlotSpec } from './slot.ts'
import type { WarmDeps, WarmEvent } from './warm-deps.ts'

/** Ages, idle kinds and a shrunken demand are looked at this often. */
const TEND_MS = 5_000
/** Refill waits until a short program has run and its answer is out, but not for long programs. */
const REFILL_AFTER_MS = 25
/**
 * After so many cold starts without a refill one slot is warmed beside the next: one short program after the other, on a backend that starts in
 * less time than that, left it no moment for seconds.
 */
const COLD_IN_A_ROW = 4
/** After a failed start a kind rests, so that a broken image does not start containers in a loop. */
const REST_AFTER_FAILURE_MS = 5_000

interface IdleSlot<S extends Slot> {
  slot: S
  sinceMs: number
  memory: Disposable
}

interface Pool<S extends Slot> {
  kind: SlotKind
  demand: Demand
  /** Slots that always wait. */
  floor: number
  idle: IdleSlot<S>[]
  /** Started and not ready yet; each is handed to the oldest waiter first. */
  warming: number
  /** Asked for and waiting for the refill gate. */
  queued: number
  waiters: ((slot: S | null) => void)[]
  /** Cold starts that ended since a refill last began. */
  colds: number
  restUntilMs: number
  /** Refills soon after a slot was taken, in case its program runs for long. */
  soon: NodeJS.Timeout | null
}

export interface SlotPools<S extends Slot> {
  /** A slot of this kind, the caller's from now on. Rejects like `start`, or with the signal's reason. */
  take(kind: SlotKind, owner: WorkerId, signal: AbortSignal): Promise<{ slot: S; warm: boolean }>
  /** Keeps `floor` slots of a kind whatever the demand. */
  keep(kind: SlotKind, floor: number): void
  readonly idle: number
  /** Destroys every waiting slot and starts no more. */
  close(): Promise<void>
}

export interface PoolParts<S extends Slot> {
  backend: string
  /** Starts a slot up to the point where its interpreter waits; leaves nothing behind when it rejects. */
  start(spec: SlotSpec, signal: AbortSignal): Promise<S>
  deps: WarmDeps
  logger?: BackendLogger
}

/** Creates the pools of one backend. */
export function createSlotPools<S extends Slot>(parts: PoolParts<S>): SlotPools<S> {
  const { deps, backend, logger = SILENT } = parts
  const settings: PoolSettings = deps.config.pools
  const pools = new Map<string, Pool<S>>()
  const closing = new AbortController()
  /** Starts that a caller waits for: a refill beside them would make them take half as long again (measured). */
  let starting = 0
  const work = new Set<Promise<unknown>>()
  const observe = (event: WarmEvent): void => deps.observe?.(event)
  const tending = setInterval(tend, TEND_MS)
  tending.unref()
  deps.memory.onPressure(letGo)

  function track(promise: Promise<unknown>): void {
    const settled = promise.catch(() => undefined).finally(() => work.delete(settled))
    work.add(settled)
  }

  function poolOf(kind: SlotKind): Pool<S> {
    const key = keyOf(kind)
    const found = pools.get(key)
    if (found !== undefined) return found
    if (pools.size >= settings.max_kinds) giveUpOldest()
    const pool: Pool<S> = {
      kind,
      demand: createDemand(Date.now()),
      floor: 0,
      idle: [],
      warming: 0,
      queued: 0,
      waiters: [],
      colds: 0,
      restUntilMs: 0,
      soon: null,
    }
    pools.set(key, pool)
    return pool
  }

  function giveUpOldest(): void {
    const unused = [...pools].filter(([, pool]) => pool.floor === 0)
    const [key, pool] =
      unused.toSorted(([, a], [, b]) => a.demand.lastArrivalMs - b.demand.lastArrivalMs)[0] ?? []
    if (key === undefined || pool === undefined) return
    pools.delete(key)
    drop(pool, pool.idle.length, 'idle')
  }

  function drop(pool: Pool<S>, count: number, why: 'age' | 'idle' | 'surplus' | 'pressure' | 'died'): void {
    for (const { slot, memory } of pool.idle.splice(0, count)) discard(slot, memory, why)
  }

  function discard(slot: S, memory: Disposable, why: 'age' | 'idle' | 'surplus' | 'pressure' | 'died'): void {
    observe({ type: 'dropped', backend, why })
    track(
      slot
        .destroy()
        .catch((error: unknown) => logger.warn({ err: error, backend }, 'a warm slot was not destroyed'))
        .finally(() => memory[Symbol.dispose]()),
    )
  }

  /** Memory that an execution waits for: oldest slots go first, floors too. */
  function letGo(bytes: number): void {
    let left = bytes
    for (const pool of pools.values())
      while (left > 0 && pool.idle.length > 0) {
        drop(pool, 1, 'pressure')
        left -= bytesOf(pool.kind)
      }
  }

  function refillSoon(pool: Pool<S>): void {
    pool.soon ??= setTimeout(() => {
      pool.soon = null
      refill(pool)
    }, REFILL_AFTER_MS).unref()
  }

  function refill(pool: Pool<S>): void {
    if (closing.signal.aborted || !settings.enabled || Date.now() < pool.restUntilMs) return
    const wanted = Math.min(settings.max_idle, Math.max(pool.floor, pool.demand.target(Date.now())))
    // Whoever waits takes one that is warming: it does not count as one that will stand ready.
    while (pool.idle.length + pool.warming + pool.queued - pool.waiters.length < wanted) {
      if (starting > 0 && pool.colds < COLD_IN_A_ROW) return
      const memory = deps.memory.tryAcquire(bytesOf(pool.kind))
      if (memory === null) return
      pool.queued += 1
      pool.colds = 0
      track(
        deps.refillGate.enter(async () => {
          pool.queued -= 1
          if (closing.signal.aborted || !isKept(pool)) return memory[Symbol.dispose]()
          await warmOne(pool, memory)
        }),
      )
    }
  }

  async function warmOne(pool: Pool<S>, memory: Disposable): Promise<void> {
    const startedMs = Date.now()
    pool.warming += 1
    try {
      const spec = { ...pool.kind, slotId: newSandboxId(), owner: deps.owner }
      const slot = await parts.start(spec, closing.signal)
      pool.demand.warmed(Date.now() - startedMs)
      observe({ type: 'warmed', backend, ms: Date.now() - startedMs })
      shelve(pool, slot, memory)
    } catch (error) {
      memory[Symbol.dispose]()
      if (closing.signal.aborted) return
      pool.restUntilMs = Date.now() + REST_AFTER_FAILURE_MS
      observe({ type: 'warm_failed', backend })
      logger.warn({ err: error, backend, kind: keyOf(pool.kind) }, 'a warm slot did not start')
      pool.waiters.shift()?.(null)
    } finally {
      pool.warming -= 1
    }
  }

  function shelve(pool: Pool<S>, slot: S, memory: Disposable): void {
    const waiter = pool.waiters.shift()
    if (waiter !== undefined && slot.alive && !closing.signal.aborted) {
      memory[Symbol.dispose]()
      return waiter(slot)
    }
    // Nothing to hand over: whoever waited for this one starts its own.
    waiter?.(null)
    if (closing.signal.aborted || !slot.alive || !isKept(pool)) return discard(slot, memory, 'died')
    const entry: IdleSlot<S> = { slot, sinceMs: Date.now(), memory }
    pool.idle.push(entry)
    slot.onClosed(() => {
      const at = pool.idle.indexOf(entry)
      if (at < 0) return
      pool.idle.splice(at, 1)
      discard(slot, memory, 'died')
    })
  }

  const isKept = (pool: Pool<S>): boolean => pools.get(keyOf(pool.kind)) === pool

  function tend(): void {
    const now = Date.now()
    for (const [key, pool] of pools) {
      if (pool.floor === 0 && now - pool.demand.lastArrivalMs > settings.idle_ms) {
        pools.delete(key)
        drop(pool, pool.idle.length, 'idle')
        continue
      }
      drop(pool, pool.idle.filter(({ sinceMs }) => now - sinceMs > settings.max_age_ms).length, 'age')
      drop(pool, pool.idle.length - Math.max(pool.floor, pool.demand.target(now)), 'surplus')
      refill(pool)
    }
  }

  function takeIdle(pool: Pool<S>): S | null {
    for (let entry = pool.idle.shift(); entry !== undefined; entry = pool.idle.shift()) {
      entry.memory[Symbol.dispose]()
      if (entry.slot.alive) return entry.slot
    }
    return null
  }

  async function nextWarming(pool: Pool<S>, signal: AbortSignal): Promise<S | null> {
    const { promise, resolve, reject } = Promise.withResolvers<S | null>()
    const onAbort = (): void => {
      const at = pool.waiters.indexOf(resolve)
      if (at < 0) return
      pool.waiters.splice(at, 1)
      reject(signal.reason)
    }
    pool.waiters.push(resolve)
    signal.addEventListener('abort', onAbort, { once: true })
    return await promise.finally(() => signal.removeEventListener('abort', onAbort))
  }

  return {
    async take(kind, owner, signal) {
      signal.throwIfAborted()
      // A waiting slot carries our label: a sandbox of another owner must be found by its own.
      const isOurs = owner === deps.owner && settings.enabled && !closing.signal.aborted
      const pool = isOurs ? poolOf(kind) : null
      pool?.demand.arrived(Date.now())
      const ready = pool === null ? null : takeIdle(pool)
      if (ready !== null) {
        observe({ type: 'taken', backend, warm: true })
        if (pool !== null) refillSoon(pool)
        return { slot: ready, warm: true }
      }
      observe({ type: 'taken', backend, warm: false })
      if (pool !== null && pool.warming > pool.waiters.length) {
        const slot = await nextWarming(pool, signal)
        if (slot !== null) {
          refillSoon(pool)
          return { slot, warm: true }
        }
      }
      const startedMs = Date.now()
      starting += 1
      try {
        const slot = await parts.start({ ...kind, slotId: newSandboxId(), owner }, signal)
        pool?.demand.warmed(Date.now() - startedMs)
        return { slot, warm: false }
      } finally {
        starting -= 1
        if (pool !== null) pool.colds += 1
        for (const waiting of pools.values()) refillSoon(waiting)
      }
    },
    keep(kind, floor) {
      if (!settings.enabled) return
      const pool = poolOf(kind)
      pool.floor = floor
      refill(pool)
    },
    get idle() {
      return [...pools.values()].reduce((sum, pool) => sum + pool.idle.length, 0)
    },
    async close() {
      clearInterval(tending)
      closing.abort(new Error('the pool is closed'))
      for (const pool of pools.values()) {
        if (pool.soon !== null) clearTimeout(pool.soon)
        drop(pool, pool.idle.length, 'idle')
        for (const waiter of pool.waiters.splice(0)) waiter(null)
      }
      while (work.size > 0) await Promise.all(work)
      pools.clear()
    },
  }
}
