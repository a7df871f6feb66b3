/**
 * Warm slots of one backend, by kind (slot-pool.ts).
 *
 * take() gets an idle slot, or a warming one that no earlier caller waits for, or starts one. So it waits no
 * longer than its own start would take, unless the warming slot fails.
 */
import { newSandboxId, type WorkerId } from '@cofferdam/contract'
import { SILENT, type BackendDeps, type BackendLogger } from '../deps.ts'
import { createLeftSlots } from './left-slots.ts'
import { createSlotPool, type SlotPool } from './slot-pool.ts'
import { bytesOf, keyOf, type Slot, type SlotKind, type SlotSpec } from './slot.ts'
import type { WarmDeps } from './warm-deps.ts'

/** Interval of checks for ages, idle kinds and lower demand. */
const TEND_MS = 5_000

export interface SlotPools<S extends Slot> {
  /** Gives the caller a slot of this kind. Rejects like `start`, or with the signal's reason. */
  take(kind: SlotKind, owner: WorkerId, signal: AbortSignal): Promise<{ slot: S; warm: boolean }>
  /** Keeps `floor` slots of a kind, whatever the demand. */
  keep(kind: SlotKind, floor: number): void
  readonly idle: number
  /** Destroys every waiting slot and starts no more. */
  close(): Promise<void>
}

export interface PoolParts<S extends Slot> {
  backend: string
  /** Starts a slot until its interpreter waits; leaves nothing if it rejects. */
  start(spec: SlotSpec, signal: AbortSignal): Promise<S>
  deps: WarmDeps
  logger?: BackendLogger
  onLeft?: BackendDeps['onLeft'] | undefined
}

export function createSlotPools<S extends Slot>(parts: PoolParts<S>): SlotPools<S> {
  const { deps, backend, logger = SILENT } = parts
  const settings = deps.config.pools
  const left = createLeftSlots({ backend, onLeft: parts.onLeft, logger })
  const pools = new Map<string, SlotPool<S>>()
  const closing = new AbortController()
  /** Number of current starts that a caller waits for. */
  let starting = 0
  const work = new Set<Promise<unknown>>()
  const tending = setInterval(tend, TEND_MS)
  tending.unref()
  deps.memory.onPressure(letGo)

  function track(promise: Promise<unknown>): void {
    const settled = promise.catch(() => undefined).finally(() => work.delete(settled))
    work.add(settled)
  }

  function poolOf(kind: SlotKind): SlotPool<S> {
    const key = keyOf(kind)
    const found = pools.get(key)
    if (found !== undefined) return found
    if (pools.size >= settings.max_kinds) giveUpOldest()
    const pool = createSlotPool<S>({
      ...parts,
      logger,
      left,
      kind,
      closing: closing.signal,
      isStarting: () => starting > 0,
      track,
    })
    pools.set(key, pool)
    return pool
  }

  function giveUpOldest(): void {
    const unused = [...pools.values()].filter(({ isKept }) => !isKept)
    const [pool] = unused.toSorted((a, b) => a.lastArrivalMs - b.lastArrivalMs)
    if (pool !== undefined) giveUp(pool)
  }

  function giveUp(pool: SlotPool<S>): void {
    pools.delete(keyOf(pool.kind))
    pool.giveUp()
  }

  /** An execution waits for memory: gives up the oldest slots first, even below the floor. */
  function letGo(bytes: number): void {
    let left = bytes
    for (const pool of pools.values())
      while (left > 0 && pool.idle > 0) {
        pool.drop(1, 'pressure')
        left -= bytesOf(pool.kind)
      }
  }

  function tend(): void {
    const unusedSinceMs = Date.now() - settings.idle_ms
    for (const pool of pools.values()) {
      if (!pool.isKept && pool.lastArrivalMs < unusedSinceMs) giveUp(pool)
      else pool.tend()
    }
  }

  async function startCold(kind: SlotKind, owner: WorkerId, pool: SlotPool<S> | null, signal: AbortSignal) {
    const startedMs = Date.now()
    let tookMs: number | null = null
    starting += 1
    try {
      const slot = await parts.start({ ...kind, slotId: newSandboxId(), owner }, signal)
      tookMs = Date.now() - startedMs
      return slot
    } finally {
      starting -= 1
      pool?.startedCold(tookMs)
      for (const waiting of pools.values()) waiting.refillSoon()
    }
  }

  return {
    async take(kind, owner, signal) {
      signal.throwIfAborted()
      // Waiting slots have this worker's label. Another owner's sandbox needs that owner's label.
      const isOurs = owner === deps.owner && settings.enabled && !closing.signal.aborted
      const pool = isOurs ? poolOf(kind) : null
      const ready = pool?.take() ?? null
      deps.observe?.({ type: 'taken', backend, warm: ready !== null })
      const slot = ready ?? (pool?.hasFreeWarming === true ? await pool.nextWarming(signal) : null)
      if (slot === null) return { slot: await startCold(kind, owner, pool, signal), warm: false }
      pool?.refillSoon()
      return { slot, warm: true }
    },
    keep(kind, floor) {
      if (settings.enabled) poolOf(kind).keep(floor)
    },
    get idle() {
      return [...pools.values()].reduce((sum, pool) => sum + pool.idle, 0)
    },
    async close() {
      clearInterval(tending)
      closing.abort(new Error('the pool is closed'))
      for (const pool of pools.values()) pool.close()
      while (work.size > 0) await Promise.all(work)
      pools.clear()
    },
  }
}
