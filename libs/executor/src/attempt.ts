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
  /** Puts the workspace into the sandbox, before the request's files. Rejects if it cannot be complete. */
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
  /** Why this attempt may not use the backend, in public words. Null, or left out, if it may. */
  refusesBackend?: (backend: string) => Promise<string | null>
  /**
   * The point of no return, awaited before the program starts. `ownSandbox` is set if the request names a
   * session and runs outside of it. `sessionId` is the sandbox of its session.
   */
  onBegin(
    ref: SandboxRef,
    place: { backend: string; isolation: string; ownSandbox?: boolean; sessionId?: string },
  ): Promise<void>
  /** The sandbox has the program. Called once, after `onBegin`. Errors that it throws are ignored. */
  onHandedOver?: () => void
  /** Settles when the outcome is published. A single-use sandbox is destroyed then, or after 100 ms. */
  answered?: Promise<unknown>
  /**
   * Live output, redacted. A piece never ends inside a character. A promise holds the program back until it
   * resolves. Errors that it throws are ignored.
   */
  onOutput(stream: 'stdout' | 'stderr', text: string): void | Promise<void>
  /** Files that this attempt gets and leaves. Undefined: none. */
  checkpoint?: Checkpoint | undefined
  /** The tenant's workspace. Undefined: none. */
  workspace?: WorkspaceTurn | undefined
  /** The program's progress, redacted, at most ten times a second. Errors that it throws are ignored. */
  onProgress?: (progress: Progress) => void
  /** Facts that the caller should know and that change no ending, such as a variable that was left out. */
  onNotice?: (message: string) => void
}

/** A sandbox that was not proven gone in time. The owner of the executor has to kill it by its ref. */
export interface LeakedSandbox {
  ref: SandboxRef
  executionId: ExecutionId
  attempt: number
  why: unknown
  /** Settles when the sandbox is gone, which may take longer. */
  ending: Promise<void>
}

/** The two calls of a pino logger that are used here. */
export interface ExecutorLog {
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Timings in milliseconds that tests and deployments change. */
export interface ExecutorTimings {
  /** From a cancel's interrupt to the end of waiting. Default CANCEL_GRACE_MS. */
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
