/**
 * Sessions of the whole fleet, by name: where a session's sandbox is, who may use it now, and how long it is
 * kept.
 *
 *   absent ──claim──► claimed ──keep──► kept (idle, no holder) ──claim──► claimed …
 *                        │                   └──idle too long──► claimed by the reaper ──forget──► absent
 *                        └──forget──► absent
 *
 * A session has one holder at a time. A claim is a lease with a fence that only rises. A holder that lost its
 * lease cannot write any more (`fenced`). The claim's `signal` aborts before another holder can claim, so
 * that the old holder stops what it still runs.
 */
import type { ExecutionId, SessionId, WorkerId } from './ids.ts'
import type { SessionScope } from './session-field.ts'

/** Identifies a session in the fleet. `key` is the request's `session.key`. */
export interface SessionName {
  tenantId: string
  backend: string
  key: string
}

/** A session that has a sandbox. JSON below 2 KiB, without secrets. */
export interface SessionEntry {
  sessionId: SessionId
  scope: SessionScope
  /** Rises with every fresh sandbox of the session. It is part of the name at a vendor. */
  epoch: number
  /** What the backend needs to attach to the sandbox or to destroy it, as in `SandboxRef`. */
  handle: Record<string, string | number>
  createdAtMs: number
  usedAtMs: number
  /** The last execution, if the backend records it. */
  executionId?: ExecutionId
  /**
   * The execution that uses the sandbox now. Absent while the session is idle. Set before the first call of
   * the sandbox. A holder that finds another execution here ends the sandbox, because that program may still
   * run. `ending`: a holder is ending the sandbox.
   */
  turn?: ExecutionId | 'ending'
  /** Number of runs, if the backend counts them. */
  runs?: number
  /** From this time on, the reaper may end the session. */
  idleAtMs: number
  /** Latest time at which its vendor or its age ends it, or null. */
  expiresAtMs: number | null
}

/**
 * Whether the entry is of a paused session: its sandbox is saved on disk, and no worker has it. The handle
 * has the size (`paused_bytes`) and the hosts that can resume it (`host_group`).
 */
export const isPausedEntry = ({ handle }: Pick<SessionEntry, 'handle'>): boolean =>
  handle['paused_bytes'] !== undefined

/** A session that was made from another one, with its state. */
export interface SessionFork {
  key: string
  sessionId: SessionId
}

/** The right to use one session now. Disposing releases it and leaves the entry as last kept. */
export interface SessionLease extends AsyncDisposable {
  readonly name: SessionName
  /** Higher than the fence of every earlier holder. */
  readonly fence: number
  /** The entry when it was claimed. Null for a session without a sandbox. */
  readonly entry: SessionEntry | null
  /** Whether `idleAtMs` or `expiresAtMs` had passed when it was claimed, by the registry's clock. */
  readonly isOverdue: boolean
  /** The epoch for a fresh sandbox, higher than every earlier one of this name. */
  readonly nextEpoch: number
  /** Aborts when the lease could not be renewed in time. */
  readonly signal: AbortSignal
  /** Writes the entry. Throws `fenced` or `queue_unavailable`. */
  keep(entry: SessionEntry): Promise<void>
  /** Removes the entry, because the session has no sandbox any more. Throws like `keep`. */
  forget(): Promise<void>
}

export interface SessionInfo extends SessionName, SessionEntry {
  /** The holder. Null while the session is idle. */
  holder: WorkerId | null
  /** The only worker that can reach the sandbox. Null when any worker can attach to it. */
  owner: WorkerId | null
}

export interface SessionRegistry {
  /**
   * Claims the session, waiting at most `waitMs` for its holder. Throws `conflict` when it is still held
   * then, `queue_unavailable`, or the reason of `signal`.
   */
  claim(
    name: SessionName,
    holder: WorkerId,
    options: { waitMs: number; signal: AbortSignal },
  ): Promise<SessionLease>
  /** Sessions of a tenant, newest first, at most 500 a page. `cursor` continues. */
  list(tenantId: string, cursor?: string): Promise<{ sessions: SessionInfo[]; cursor: string | null }>
  find(name: SessionName): Promise<SessionInfo | null>
  /**
   * Sessions of a backend that are past `idleAtMs` or `expiresAtMs` and have no holder, at most `limit`. The
   * caller should end them. A session that is not ended is returned again after a growing pause, so that it
   * does not block others.
   */
  overdue(backend: string, limit: number): Promise<SessionName[]>
  /**
   * Every session of a backend that any worker can attach to. Contains at least the sessions that exist
   * during the whole iteration. Throws `queue_unavailable`, or `internal` for an entry that cannot be parsed.
   */
  entries(backend: string): AsyncIterable<SessionInfo>
}
