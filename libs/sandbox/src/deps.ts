/**
 * What every backend gets besides its config. Backends read no environment and install no signal handlers.
 */
import type { Duplex } from 'node:stream'
import type { RateGate, SandboxRef, SessionRegistry } from '@cofferdam/contract'
import type { WarmDeps } from './warm/warm-deps.ts'

/** The part of a logger that backends use; a pino logger fits. */
export interface BackendLogger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

/** Encrypts bytes for the disk, and decrypts them. Both need the bytes' tenant and location. */
export interface Sealing {
  seal(where: { tenant: string; location: string }): Duplex
  open(where: { tenant: string; location: string }): Duplex
}

export interface BackendDeps {
  /** Gets failures that no caller waits for, such as a failed clean-up. Absent: nothing is logged. */
  logger?: BackendLogger
  /**
   * Called if a sandbox that nobody holds may be left: an `open` failed, or a waiting sandbox could not be
   * destroyed. The caller kills it by this ref until that succeeds. Resolves to true when it is proven gone,
   * and to false if the caller gives up. Never rejects. Absent: the vendor's own deadline ends it.
   */
  onLeft?: (ref: SandboxRef) => Promise<boolean>
  /** Shared by all backends of a worker. Absent: no slot is started in advance. */
  warm?: WarmDeps
  /** The fleet's sessions, for backends whose sandboxes any worker can attach to. Absent: no sessions. */
  sessions?: SessionRegistry
  /** Encrypts what a backend keeps of sandboxes on disk. Absent: there is no key, so nothing is encrypted. */
  sealing?: Sealing
  /** Rate limits of a vendor's account, shared by all workers. Absent: this worker limits only itself. */
  rate?: RateGate
}

/** A logger that drops everything. */
export const SILENT: BackendLogger = { debug() {}, info() {}, warn() {} }
