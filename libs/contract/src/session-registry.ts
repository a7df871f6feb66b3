/**
 * Sessions of the whole fleet, by name: where a session's sandbox is, who may touch it now, and until when it is kept.
 *
 *   absent ──claim──► claimed ──keep──► kept (idle, nobody's) ──claim──► claimed …
 *                        │                   └──idle deadline passed──► claimed by the reaper ──forget──► absent
 *                        └──forget──► absent
 *
 * Kept means at rest: an entry that says a turn belongs to its holder, or to one that died in it.
 *
 * One holder at a time: a claim is a lease with a fence that only rises. Whoever lost its lease writes nothing any more
 * (`fenced`), and what it still runs is its own to stop: `signal` says so before the lease can be another's.
 */
import type { ExecutionId, SessionId, WorkerId } from './ids.ts'
import type { SessionScope } from './request.ts'

/** A session's name: unique in a fleet. `key` is the caller's (`session.key`). */
export interface SessionName {
  tenantId: string
  backend: string
  key: string
}

/** What is known of a session that has a sandbox. JSON, below 2 KiB, no secrets. */
export interface SessionEntry {
  sessionId: SessionId
  scope: SessionScope
  /** Rises with every fresh sandbox of the name; part of whatever a vendor's session is called. */
  epoch: number
  /** As in `SandboxRef`: what the backend needs to attach to it or to destroy it. */
  handle: Record<string, string | number>
  createdAtMs: number
  usedAtMs: number
  /** Its last execution, where the backend keeps it. */
  executionId?: ExecutionId
  /**
   * Who has its turn in it: from before anything is asked of its sandbox until the write that rests it, so absent while it rests.
   * Nobody joins a sandbox whose entry says a turn: the next holder ends it, for its program may still run. `ending`: somebody
   * ends it.
   */
  turn?: ExecutionId | 'ending'
  /** Runs that it had, where the backend counts them. */
  runs?: number
  /** From then on the reaper may end it. */
  idleAtMs: number
  /** When it ends at the latest, by its vendor or for its age; null when neither is known. */
  expiresAtMs: number | null
}

/** The right to use one session now. Disposing gives it back and leaves the entry as it was kept last. */
export interface SessionLease extends AsyncDisposable {
  readonly name: SessionName
  /** Higher than that of every earlier holder. */
  readonly fence: number
  /** What was there when it was claimed; null for a session that has no sandbox. */
  readonly entry: SessionEntry | null
  /** Its idle deadline or its vendor's end had passed when it was claimed, by the registry's clock. */
  readonly isOverdue: boolean
  /** The epoch for a fresh sandbox: higher than that of every earlier one of this name, also of those kept under this lease. */
  readonly nextEpoch: number
  /** Aborts when the lease could not be renewed in time. */
  readonly signal: AbortSignal
  /** Writes the entry. Throws CofferdamError fenced | queue_unavailable. */
  keep(entry: SessionEntry): Promise<void>
  /** The session has no sandbox any more. Throws like `keep`. */
  forget(): Promise<void>
}

/** A session as the API shows it. */
export interface SessionInfo extends SessionName, SessionEntry {
  /** Who holds it now; null while it is idle. */
  holder: WorkerId | null
  /** The only worker that reaches its sandbox; null when any worker can attach to it. */
  owner: WorkerId | null
}

export interface SessionRegistry {
  /**
   * Waits until nobody else holds it, at most `waitMs`, and takes it. Throws CofferdamError conflict when it is still held
   * then, queue_unavailable, and the reason of `signal`.
   */
  claim(
    name: SessionName,
    holder: WorkerId,
    options: { waitMs: number; signal: AbortSignal },
  ): Promise<SessionLease>
  /** Sessions of a tenant, newest first, at most 500 a page; `cursor` continues. */
  list(tenantId: string, cursor?: string): Promise<{ sessions: SessionInfo[]; cursor: string | null }>
  find(name: SessionName): Promise<SessionInfo | null>
  /**
   * Names of a backend whose idle deadline or vendor's end has passed and that nobody holds, at most `limit`. Whoever asks
   * is to end them: one that stays is named again after a pause that grows, so that it does not stand in the way of others.
   */
  overdue(backend: string, limit: number): Promise<SessionName[]>
  /**
   * Every session of a backend that any worker can attach to. One whose entry stands for as long as this goes on is among them. Throws
   * queue_unavailable, and internal at an entry that it cannot read.
   */
  entries(backend: string): AsyncIterable<SessionInfo>
}
