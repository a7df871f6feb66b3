/** What the executor is given for one attempt, and what it is built from. */
import type {
  Backend,
  BlobStore,
  ExecutionId,
  ExecutionRequest,
  Progress,
  Sandbox,
  SandboxId,
  SandboxRef,
  TenantPolicy,
  WorkerId,
  WorkspaceReport,
} from '@cofferdam/contract'
import type { Egress } from '@cofferdam/egress'
import type { Checkpoint } from './checkpoint.ts'
import type { CircuitBreaker } from './circuit-breaker.ts'
import type { FullBackends } from './full-backends.ts'
import type { Clock } from './clock.ts'
import type { MemoryBudget } from './memory-budget.ts'
import type { ProbeCache } from './probe-cache.ts'

export interface WorkspaceTurn {
  readonly name: string
  /**
   * Puts the workspace into the sandbox, before the request's files. Rejects if the sandbox cannot get all of
   * it.
   */
  enter(sandbox: Sandbox, signal: AbortSignal): Promise<void>
  /** Merges all changes back, or none. Rejects when it could not. */
  leave(sandbox: Sandbox, signal: AbortSignal): Promise<WorkspaceReport>
}

export interface Attempt {
  executionId: ExecutionId
  attempt: number
  request: ExecutionRequest
  tenant: TenantPolicy
  owner: WorkerId
  /** Aborts with a StopReason: cancelled, drain or lock_lost. */
  signal: AbortSignal
  /** Parent of the attempt's spans when no span is active. */
  traceparent: string | null
  /**
   * Resolves with the reason why this attempt may not use the backend, or null if it may. Callers see the
   * reason.
   */
  refusesBackend?: (backend: string) => Promise<string | null>
  /**
   * The point of no return, awaited before the program starts. `ownSandbox` is set if the request got the
   * session of its run but runs in a sandbox of its own. Otherwise `sessionId` is the ID of its session's
   * sandbox, if it has a session.
   */
  onBegin(
    ref: SandboxRef,
    place: { backend: string; isolation: string; ownSandbox?: boolean; sessionId?: string },
  ): Promise<void>
  /** The sandbox has the program. Called once, after `onBegin`. Errors that it throws are ignored. */
  onHandedOver?: () => void
  /**
   * Settles when the outcome is published. The destruction of a single-use sandbox waits for it, for at most
   * 100 ms.
   */
  answered?: Promise<unknown>
  /**
   * Live output, redacted. A piece never ends inside a character. If the listener returns a promise, the
   * program is held back until it resolves. Errors that it throws are ignored.
   */
  onOutput(stream: 'stdout' | 'stderr', text: string): void | Promise<void>
  /** Files from an earlier attempt, and which files to save for the next one. Undefined: none. */
  checkpoint?: Checkpoint | undefined
  /** The tenant's workspace. Undefined: none. */
  workspace?: WorkspaceTurn | undefined
  /** The program's progress, redacted, at most ten times a second. Errors that it throws are ignored. */
  onProgress?: (progress: Progress) => void
  /**
   * Facts that the caller should know but that do not change how the execution ends, such as a dropped
   * variable.
   */
  onNotice?: (message: string) => void
}

/** A sandbox that was not proven gone in time. The owner of the executor has to kill it by its ref. */
export interface LeakedSandbox {
  ref: SandboxRef
  executionId: ExecutionId
  attempt: number
  why: unknown
  /**
   * Settles when the disposal of the sandbox ends, which may be long after this report. Rejects if that
   * failed.
   */
  ending: Promise<void>
}

/** The two calls of a pino logger that are used here. */
export interface ExecutorLog {
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Timings in milliseconds that tests and deployments change. */
export interface ExecutorTimings {
  /**
   * How long to wait for the program to end after a cancel or a drain interrupted it. Default
   * CANCEL_GRACE_MS.
   */
  cancelGraceMs: number
  /** How long `execute` waits for the proof that a sandbox is gone. Default DISPOSE_PROOF_MS. */
  disposeProofMs: number
}

export interface ExecutorParts extends ExecutorTimings {
  backends: ReadonlyMap<string, Backend>
  order: readonly string[]
  blobs: BlobStore
  memory: MemoryBudget
  clock: Clock
  probes: ProbeCache
  circuits: CircuitBreaker
  full: FullBackends
  egress: Egress | null
  log: ExecutorLog
  newSandboxId(): SandboxId
  onLeaked(leaked: LeakedSandbox): void
}
