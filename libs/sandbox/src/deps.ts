/**
 * What every backend gets besides its config. Backends never read the environment and install no signal
 * handlers.
 */
import type { RateGate, SandboxRef, SessionRegistry } from '@cofferdam/contract'
import type { WarmDeps } from './warm/warm-deps.ts'

/** The part of a logger that backends use; a pino logger fits. */
export interface BackendLogger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

export interface BackendDeps {
  /**
   * Told of failures that no caller waits for, such as a clean-up that failed. Left out: nothing is logged.
   */
  logger?: BackendLogger
  /**
   * Called when an `open` failed and what it may have left could not be removed at once. The caller kills it
   * by this ref until that succeeds. Left out: the vendor's own deadline ends it.
   */
  onLeft?: (ref: SandboxRef) => void
  /** Shared by all backends of a worker. Left out: no slot is started ahead of need. */
  warm?: WarmDeps
  /**
   * Sessions of the fleet, for backends whose sandboxes any worker can attach to. Left out: those have no
   * sessions.
   */
  sessions?: SessionRegistry
  /** Rate limits of a vendor's account that all workers share. Left out: this worker keeps to them alone. */
  rate?: RateGate
}

/** A logger that drops everything. */
export const SILENT: BackendLogger = { debug() {}, info() {}, warn() {} }
