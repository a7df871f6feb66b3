/**
 * The warm slots and cells of one backend. `open` makes one call, `take`, and need not know which of them it
 * gets.
 */
import type { SandboxSpec, SessionId } from '@cofferdam/contract'
import { SILENT, type BackendDeps, type BackendLogger } from '../deps.ts'
import { createCells } from './cells.ts'
import { START_LIMITS, warmConfigSchema } from './config.ts'
import type { Keeping, PausedCells } from './paused-cells.ts'
import { createSlotPools } from './pools.ts'
import { createLeftSlots } from './left-slots.ts'
import { createRefillGate } from './refill-gate.ts'
import { kindOf, type CellSlot, type Preloads, type SlotSpec } from './slot.ts'
import type { WarmDeps } from './warm-deps.ts'

/** The slot of one execution: its own, or a cell for one turn. */
export interface BoundSlot<S extends CellSlot> extends Keeping {
  readonly slot: S
  readonly warm: boolean
  readonly session: { id: SessionId; fresh: boolean } | null
  readonly keepsInterpreter: boolean
  /** Default false. */
  readonly keepsProcesses?: boolean
  /** Call this when the program has ended. The program then no longer delays the start of other slots. */
  programEnded(): void
  /**
   * Destroys the slot or ends the turn (`lost`: not reusable). Idempotent. Resolves when the sandbox is
   * proven gone or clean.
   */
  end(lost: boolean): Promise<void>
}

export interface Warmth<S extends CellSlot> {
  /** Rejects like `start`, with `conflict` for a session with other limits, or with the signal's reason. */
  take(spec: SandboxSpec, signal: AbortSignal): Promise<BoundSlot<S>>
  /** Ends a slot that was lost while it waited. Only `close` waits for that. */
  abandon(bound: BoundSlot<S>): void
  /** Starts the slots that are warm from the worker's start. */
  prewarm(): void
  /** Slots that wait for an execution. */
  readonly idle: number
  /** Names of the preload sets. */
  readonly preloads: readonly string[]
  /** Their modules by name. */
  readonly preloadSets: Preloads
  /** Destroys everything that waits. */
  close(): Promise<void>
}

export interface WarmthParts<S extends CellSlot> {
  backend: string
  /** Starts a slot until its interpreter waits; leaves nothing if it rejects. */
  start(spec: SlotSpec, signal: AbortSignal): Promise<S>
  /**
   * Null for a backend without a worker, as in tests: then no slots are kept warm, and cells have no memory
   * budget.
   */
  deps: WarmDeps | null
  logger?: BackendLogger
  /** Gets waiting slots that could not be destroyed. */
  onLeft: BackendDeps['onLeft']
  /** Keeps sessions on disk. Absent if the backend cannot. */
  paused?: PausedCells<S>
}

export function createWarmth<S extends CellSlot>(parts: WarmthParts<S>): Warmth<S> {
  const deps = parts.deps ?? alone()
  const { backend, logger = SILENT } = parts
  const { preload } = deps.config
  const shared = { ...parts, deps }
  const pools = createSlotPools(shared)
  const cells = createCells(shared)
  const left = createLeftSlots({ backend, onLeft: parts.onLeft, logger })
  const abandoned = new Set<Promise<void>>()

  return {
    async take(spec, signal) {
      const kind = kindOf(spec, preload)
      const left = deps.refillGate.executing()
      try {
        if (kind.cell) {
          const turn = await cells.take(spec, kind, signal)
          return { ...turn, programEnded: () => undefined, end: (lost) => turn.end(lost).finally(left) }
        }
        const { slot, warm } = await pools.take(kind, spec.owner, signal)
        return {
          slot,
          warm,
          session: null,
          keepsInterpreter: false,
          programEnded: left,
          end: () => slot.destroy().finally(left),
        }
      } catch (error) {
        left()
        throw error
      }
    },
    abandon(bound) {
      // The execution already owns this slot's share of memory, and opens another slot with it. So if this
      // slot cannot be destroyed, no share stays taken for it. Cells report the drop themselves.
      if (!bound.slot.spec.cell) deps.observe?.({ type: 'dropped', backend, why: 'died' })
      const ended = bound
        .end(true)
        .catch((error: unknown) => left.add(bound.slot, null, error))
        .finally(() => abandoned.delete(ended))
      abandoned.add(ended)
    },
    prewarm() {
      for (const { language, preload: set } of deps.config.pools.start) {
        const modules = language === 'python' && set !== undefined ? (preload[set] ?? []) : []
        const { memory_mib, cpus, pids, disk_mib } = START_LIMITS
        pools.keep(
          { language, preload: modules, limits: { memory_mib, cpus, pids, disk_mib }, cell: false },
          1,
        )
      }
    },
    get idle() {
      return pools.idle
    },
    preloads: Object.keys(preload),
    preloadSets: preload,
    async close() {
      await Promise.all([pools.close(), cells.close(), ...abandoned])
    },
  }
}

/**
 * Stands in for the worker of a backend without one: no slots are kept warm, and cells have no memory budget.
 */
function alone(): WarmDeps {
  const config = warmConfigSchema.parse({ pools: { enabled: false } })
  return {
    owner: 'wrk_alone',
    memory: { tryAcquire: () => ({ [Symbol.dispose]: () => undefined }), onPressure: () => undefined },
    refillGate: createRefillGate(1),
    config,
  }
}
