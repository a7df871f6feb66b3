/**
 * What a backend does for sessions that any worker attaches to. Everything else is the same for all backends
 * (take-turn.ts).
 */
import type { SandboxSpec, SessionEntry, SessionLease, SessionRegistry } from '@cofferdam/contract'
import type { BackendLogger } from '@cofferdam/sandbox/backend'
import type { SessionLimits } from './session-entry.ts'

/** Of what is kept at the vendor, as it is at rest. */
export interface AtRest {
  spec: SandboxSpec
  lease: SessionLease
  entry: SessionEntry
  /** How long it will wait after this turn. */
  idleMs: number
  signal: AbortSignal
  /**
   * Marks the entry as in a turn, which only the holder of the lease can. `attach` awaits it once, as late as
   * possible, because a session survives a worker that dies before this write. It must come before any
   * request that a replaced holder must not make.
   */
  begins: (change?: Pick<SessionEntry, 'expiresAtMs'>) => Promise<void>
}

/** One that is promised in the registry and is to be made. */
export type Promised = Pick<AtRest, 'spec' | 'lease' | 'entry' | 'idleMs' | 'signal'>

/** `Held` is what an execution works with. */
export interface SessionKeeper<Held> {
  backend: string
  registry: SessionRegistry
  limits: SessionLimits
  /** Milliseconds that `start` may take at most. */
  startMs: number
  logger: BackendLogger
  /** Throws `conflict` when the session is none for this execution. */
  refuse(entry: SessionEntry, spec: SandboxSpec): void
  /**
   * Null: it cannot be had any more, and is to be ended. Throws, and leaves it as it was, when nobody could
   * ask.
   */
  attach(at: AtRest): Promise<Held | null>
  /**
   * What is written before a fresh one is asked for: enough to find what a worker that dies meanwhile leaves.
   */
  promise(
    at: Pick<AtRest, 'spec' | 'idleMs'> & { key: string; epoch: number },
  ): Promise<Pick<SessionEntry, 'handle' | 'expiresAtMs'>>
  /** Throws like an open; the entry's sandbox is ended then. */
  start(at: Promised): Promise<Kept<Held>>
  /** Proves it clean and lets go of it; what changes in its entry. Throws when it is to be ended instead. */
  rest(held: Held, at: Pick<AtRest, 'spec' | 'entry' | 'idleMs'>): Promise<Rested>
  /** Resolves when it is proven gone. */
  destroy(held: Held): Promise<unknown>
  /** Ends what an entry names. */
  end(entry: SessionEntry): Promise<unknown>
}

/** What is held, and how it is found again. */
export interface Kept<Held> {
  held: Held
  handle: SessionEntry['handle']
}

/**
 * What a vendor makes of it otherwise than written so far; `idleAtMs` instead of what the session's idle time
 * says.
 */
export type Rested = Partial<Pick<SessionEntry, 'handle' | 'idleAtMs' | 'expiresAtMs'>>
