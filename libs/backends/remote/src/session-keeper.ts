/** The parts of shared sessions that differ between backends. take-turn.ts has the rest. */
import type { SandboxSpec, SessionEntry, SessionLease, SessionRegistry } from '@cofferdam/contract'
import type { BackendLogger } from '@cofferdam/sandbox/backend'
import type { SessionLimits } from './session-entry.ts'

/** A session at rest. */
export interface AtRest {
  spec: SandboxSpec
  lease: SessionLease
  entry: SessionEntry
  /** Idle time after this turn. */
  idleMs: number
  signal: AbortSignal
  /**
   * Marks the entry as in a turn. Only the holder of the lease can do this. `attach` awaits it once, before
   * any request that a replaced holder must not make. Within that, it is called as late as possible: if the
   * worker dies before this write, the session survives.
   */
  begins: (change?: Pick<SessionEntry, 'expiresAtMs'>) => Promise<void>
}

/** A session whose entry is in the registry already, and whose sandbox must still be started. */
export type Promised = Pick<AtRest, 'spec' | 'lease' | 'entry' | 'idleMs' | 'signal'>

/** `Held` is the type of what a turn uses, such as a slot. */
export interface SessionKeeper<Held> {
  backend: string
  registry: SessionRegistry
  limits: SessionLimits
  /** Maximum time of `start` in milliseconds. */
  startMs: number
  logger: BackendLogger
  /** Throws `conflict` if this execution cannot use the session. */
  refuse(entry: SessionEntry, spec: SandboxSpec): void
  /**
   * Null if the sandbox cannot be attached to and must be ended. Throws, unchanged, if the vendor is
   * unreachable.
   */
  attach(at: AtRest): Promise<Held | null>
  /**
   * The vendor's part of the entry. It is written before a fresh sandbox is requested, so that the sandbox
   * can be found if the worker dies.
   */
  promise(
    at: Pick<AtRest, 'spec' | 'idleMs'> & { key: string; epoch: number },
  ): Promise<Pick<SessionEntry, 'handle' | 'expiresAtMs'>>
  /** Starts the sandbox. If that fails, ends the entry's sandbox and throws like `open`. */
  start(at: Promised): Promise<Kept<Held>>
  /**
   * Proves that the sandbox is clean and releases it. Returns the entry's changes. Throws if it must be
   * ended.
   */
  rest(held: Held, at: Pick<AtRest, 'spec' | 'entry' | 'idleMs'>): Promise<Rested>
  /** Ends the sandbox. Resolves when it is certainly gone. */
  destroy(held: Held): Promise<unknown>
  /** Ends the sandbox of an entry. */
  end(entry: SessionEntry): Promise<unknown>
}

/** A held sandbox, and how it is found again. */
export interface Kept<Held> {
  held: Held
  handle: SessionEntry['handle']
}

/** A vendor's changes of the entry. `idleAtMs` overrides the session's idle time. */
export type Rested = Partial<Pick<SessionEntry, 'handle' | 'idleAtMs' | 'expiresAtMs'>>
