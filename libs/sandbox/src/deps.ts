/** What every backend gets besides its config. Backends never read the environment and install no signal handlers. */
import type { RateGate, SandboxRef, SessionRegistry } from '@cofferdam/contract'
import type { WarmDeps } from './warm/warm-deps.ts'

/** The part of a logger that backends use; a pino logger fits. */
export interface BackendLogger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

export interface BackendDeps {
  /** Takes what no caller waits for, such as a clean-up that failed; nothing is logged when it is left out. */
  logger?: BackendLogger
  /**
   * Told of what an `open` that failed may have left, when it could not be removed at once: it is killed by this ref until that succeeds.
   * Without it such a thing ends by its vendor's own clock.
   */
  onLeft?: (ref: SandboxRef) => void
  /** Shared by all backends of a worker; without it nothing is started ahead of need. */
  warm?: WarmDeps
  /** Sessions of the whole fleet, for backends whose sandboxes any worker can attach to; without it these offer no sessions. */
  sessions?: SessionRegistry
  /** Rates of a vendor's account that all workers share; without it each worker keeps to them alone. */
  rate?: RateGate
}

/** A logger that drops everything. */
export const SILENT: BackendLogger = { debug() {}, info() {}, warn() {} }
