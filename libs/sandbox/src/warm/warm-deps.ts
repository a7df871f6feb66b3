/** What the warm slots and cells of all backends of a worker share. */
import type { SessionEntry, SessionName, WorkerId } from '@cofferdam/contract'
import type { WarmConfig } from './config.ts'
import type { RefillGate } from './refill-gate.ts'

/** The part of the worker's memory budget that waiting sandboxes use. */
export interface WarmMemory {
  /** Takes `bytes` at once or not at all; disposing gives them back. */
  tryAcquire(bytes: number): Disposable | null
  /**
   * Calls `listener` when an execution has to wait for `bytes`: waiting slots and idle cells must be given
   * up.
   */
  onPressure(listener: (bytes: number) => void): void
}

/** Why a slot or a cell was ended that could have served on. */
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
  /** Shared by all backends, so that starts do not slow down running programs. */
  refillGate: RefillGate
  config: WarmConfig
  observe?(event: WarmEvent): void
  /**
   * Hears of each session that has its sandbox here: when a turn begins and ends, and (null) when the sandbox
   * is gone.
   */
  onSession?(name: SessionName, state: { entry: SessionEntry; isBusy: boolean } | null): void
}
