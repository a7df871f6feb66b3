/** Shared by the warm slots and cells of all backends of a worker. */
import type { SessionEntry, SessionName, WorkerId } from '@cofferdam/contract'
import type { WarmConfig } from './config.ts'
import type { RefillGate } from './refill-gate.ts'

/** The worker's memory budget, as far as waiting sandboxes use it. */
export interface WarmMemory {
  /** Takes `bytes` at once or not at all; disposing gives them back. */
  tryAcquire(bytes: number): Disposable | null
  /**
   * Calls `listener` when an execution waits for `bytes`. The listener then gives up waiting slots and idle
   * cells.
   */
  onPressure(listener: (bytes: number) => void): void
}

/** Why a usable slot or cell was ended. */
export type DropReason = 'age' | 'idle' | 'surplus' | 'pressure' | 'died' | 'runs' | 'unclean'

/** What happened to a slot, for metrics. `ms` is the time that it took. */
export type WarmEvent =
  | { type: 'taken'; backend: string; warm: boolean }
  | { type: 'warmed'; backend: string; ms: number }
  | { type: 'warm_failed'; backend: string }
  | { type: 'dropped'; backend: string; why: DropReason }

export interface WarmDeps {
  owner: WorkerId
  memory: WarmMemory
  /** Shared by all backends, so that starts do not slow down programs. */
  refillGate: RefillGate
  config: WarmConfig
  observe?(event: WarmEvent): void
  /**
   * Called for a session with a cell here when a turn begins or ends. Called with null when its sandbox is
   * gone.
   */
  onSession?(name: SessionName, state: { entry: SessionEntry; isBusy: boolean } | null): void
}
