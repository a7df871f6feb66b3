/** Cells of sessions that a backend keeps on disk: without a process, and without memory of the host. */
import {
  CofferdamError,
  type ExecutionId,
  type SessionFork,
  type SessionId,
  type SessionName,
  type SessionScope,
  type WorkerId,
} from '@cofferdam/contract'
import type { Cell } from './cell-domains.ts'
import { bytesOf, type CellSlot, type SlotKind } from './slot.ts'
import type { WarmMemory } from './warm-deps.ts'

/** What a paused session has beside its sandbox. */
export interface CellState {
  id: SessionId
  scope: SessionScope
  runs: number
  createdMs: number
  /** How long it has been in use. The time on disk does not count to its age. */
  ageMs: number
  idleMs: number
  executionId: ExecutionId
}

/** A backend's way to keep sessions on disk. A name is paused, or it has a cell, never both. */
export interface PausedCells<S extends CellSlot> {
  /** Whether the session is paused, here or where only other workers reach it. */
  has(name: SessionName): Promise<boolean>
  /**
   * Continues a paused session. Until it resolves, the session stays paused. Null if it is paused no longer.
   * Calls `admit` before it starts anything, with the memory that it needs beyond that of a new one. Throws
   * `conflict` if this worker cannot reach or run it.
   */
  resume(
    name: SessionName,
    owner: WorkerId,
    admit: (kind: SlotKind, ownBytes: number) => void,
    signal: AbortSignal,
  ): Promise<{ slot: S; state: CellState } | null>
  /** Saves the session. Its slot can only be destroyed afterwards. If it rejects, the slot is as before. */
  pause(name: SessionName, slot: S, state: CellState, signal: AbortSignal): Promise<void>
  /** Makes a paused session of each key from the state of the slot, which goes on. All or none. */
  fork(
    name: SessionName,
    slot: S,
    state: CellState,
    keys: readonly string[],
    signal: AbortSignal,
  ): Promise<SessionFork[]>
}

/** What a turn may do with its session as a whole. Absent if the backend cannot, or without a session. */
export interface Keeping {
  /** Pauses the session. The turn is then ended as lost. */
  readonly pause?: (signal: AbortSignal) => Promise<void>
  /** Makes paused sessions of these keys from this one, which goes on. */
  readonly fork?: (keys: readonly string[], signal: AbortSignal) => Promise<SessionFork[]>
}

export function keepingOf<S extends CellSlot>(
  paused: PausedCells<S> | undefined,
  session: SessionName | null,
  cell: Cell<S>,
): Keeping {
  if (session === null || paused === undefined) return {}
  return {
    pause: async (signal) => await paused.pause(session, cell.slot, stateOf(cell), signal),
    fork: async (keys, signal) => await paused.fork(session, cell.slot, stateOf(cell), keys, signal),
  }
}

const stateOf = <S extends CellSlot>(cell: Cell<S>): CellState => ({
  id: cell.id,
  scope: cell.scope,
  runs: cell.runs,
  createdMs: cell.createdMs,
  ageMs: Date.now() - cell.startedMs,
  idleMs: cell.idleMs,
  executionId: cell.executionId,
})

/**
 * The cell of a paused session, in use. Its share of the budget is taken before anything starts, since its
 * state on disk is gone afterwards. Null if it is not paused.
 */
export async function resumeCell<S extends CellSlot>(
  paused: PausedCells<S>,
  name: SessionName,
  owner: WorkerId,
  memory: WarmMemory,
  signal: AbortSignal,
): Promise<Cell<S> | null> {
  let held: Disposable | null = null
  let ownBytes = 0
  const admit = (kind: SlotKind, bytes: number): void => {
    ownBytes = bytes
    held = memory.tryAcquire(bytesOf(kind) + bytes)
    if (held === null)
      throw new CofferdamError(
        'backend_unavailable',
        'This worker has no memory for the paused session now.',
        {
          details: { full: true },
        },
      )
  }
  const release = (): void => (held as Disposable | null)?.[Symbol.dispose]()
  try {
    const resumed = await paused.resume(name, owner, admit, signal)
    if (resumed === null) return (release(), null)
    const { ageMs, ...state } = resumed.state
    return {
      ...state,
      slot: resumed.slot,
      limits: resumed.slot.spec.limits,
      startedMs: Date.now() - ageMs,
      ownBytes,
      idleSinceMs: null,
      memory: held,
    }
  } catch (error) {
    release()
    throw error
  }
}
