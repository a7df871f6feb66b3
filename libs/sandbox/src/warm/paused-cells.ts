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

/** What is saved of a paused session besides its sandbox. */
export interface CellState {
  id: SessionId
  scope: SessionScope
  runs: number
  createdMs: number
  /** Age of the session, without the time on disk. */
  ageMs: number
  idleMs: number
  executionId: ExecutionId
}

/** A backend's way to keep sessions on disk. A session is paused or has a cell, never both. */
export interface PausedCells<S extends CellSlot> {
  /** Whether the session is paused, even if only another worker can reach its files. */
  has(name: SessionName): Promise<boolean>
  /**
   * Continues a paused session. Until it resolves, the session stays paused. Null if the session is no longer
   * paused. Before anything starts, calls `admit` with the kind and with the memory that the session needs
   * beyond that of a new one. `admit` may throw. Throws `conflict` if this worker cannot reach or run it.
   */
  resume(
    name: SessionName,
    owner: WorkerId,
    admit: (kind: SlotKind, ownBytes: number) => void,
    signal: AbortSignal,
  ): Promise<{ slot: S; state: CellState } | null>
  /** Saves the session. Its slot can only be destroyed afterwards. If it rejects, the slot is as before. */
  pause(name: SessionName, slot: S, state: CellState, signal: AbortSignal): Promise<void>
  /**
   * Copies the state of the slot into one paused session for each of `keys`. The slot goes on. Creates all of
   * them or none.
   */
  fork(
    name: SessionName,
    slot: S,
    state: CellState,
    keys: readonly string[],
    signal: AbortSignal,
  ): Promise<SessionFork[]>
}

/**
 * What a turn may do with its session as a whole. Both methods are absent if the backend cannot keep sessions
 * on disk or the turn has no session.
 */
export interface Keeping {
  /** Pauses the session. The caller must then end the turn as lost. */
  readonly pause?: (signal: AbortSignal) => Promise<void>
  /** Copies this session into one paused session for each of `keys`. This session goes on. */
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
 * Resumes a paused session in a cell, which is then in use. Takes its share of the memory budget before
 * anything starts, because the state on disk is gone afterwards. Null if the session is not paused.
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
