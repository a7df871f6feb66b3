/**
 * The interface of everything that makes sandboxes. Deadlines, output bounds, redaction, caps, audit, retries
 * and the choice of a backend are implemented once, above it. A backend only opens, runs, reads and destroys
 * sandboxes.
 *
 * A program of type `files` is never passed to `run`. `open` does not create a sandbox for it: if the session
 * has none, it throws `session_not_found`.
 *
 * Lifecycle of a sandbox:   open ──write*──run──(read|list)*──dispose
 *   open     Starts a sandbox, or takes a warm one. The caller sees only a difference in time. Throws
 *            `capability_missing` for anything that the backend does not declare.
 *   run      Called at most once for reuse scope `job`, one call after the other in a session. Resolves with
 *            evidence whatever the program did. Throws `sandbox_lost` or `protocol_violation` when the
 *            sandbox itself failed.
 *   dispose  Destroys the sandbox. Idempotent and allowed at any time: a pending `run` rejects with
 *            `sandbox_lost`. Resolves when every process of the sandbox is proven gone. For reuse scope
 *            `session` or `tenant` it ends the turn and proves that only what the session keeps is left.
 *            Without that proof it destroys the sandbox.
 */
import type { Capabilities } from './capabilities.ts'
import type { ExecutionId, SandboxId, SessionId, WorkerId } from './ids.ts'
import type { Isolation } from './isolation.ts'
import type { Duplex } from 'node:stream'
import type { Program } from './program.ts'
import type { Limits } from './limits.ts'
import type { Network } from './network.ts'
import type { SessionScope } from './session-field.ts'
import type { InterpreterFinding } from './result.ts'
import type { Usage } from './usage.ts'
import type { SessionEntry, SessionFork, SessionName } from './session-registry.ts'

export type Probe =
  | { ok: true; /** One line per feature that this host has. */ features: string[] }
  | {
      ok: false
      /** What is missing. */ why: string
      /** What to do about it, if possible as a command. */ fix: string
    }

export interface SandboxSpec {
  sandboxId: SandboxId
  executionId: ExecutionId
  attempt: number
  tenantId: string
  /** The worker that owns the sandbox. `sweep` uses it to find what a dead worker left. */
  owner: WorkerId
  program: Program
  limits: Limits
  network: Network
  /** Sanitised environment of the program, including `TRACEPARENT`. */
  env: Record<string, string>
  /** Name of a preload set, or null. */
  preload: string | null
  reuse: 'job' | 'session' | 'tenant'
  /** Set exactly when `reuse` is `session`. */
  session: {
    key: string
    scope: SessionScope
    idleMs: number | null
    /** If true, `open` throws `session_not_found` instead of starting a new session. Default false. */
    mustExist?: boolean
  } | null
}

/** What another worker needs to kill the sandbox. JSON below 1 KiB, without secrets. */
export interface SandboxRef {
  backend: string
  id: SandboxId
  /** What the backend needs to find it again (container ID, PID and start time, VM ID, session ID …). */
  handle: Record<string, string | number>
  /**
   * The sandbox's name in the vendor's logs, to join them with ours. Not a secret: for a vendor with secret
   * identifiers it is a hash. Undefined without a vendor. At most BOUNDS.vendorRefLength characters.
   */
  vendorRef?: string
}

export interface ProgramFile {
  path: string
  bytes: Uint8Array
  executable?: boolean
}

export interface Entry {
  path: string
  size: number
}

/** A program's report of its own progress. */
export interface Progress {
  /** 0 to 1. */
  fraction: number
  /** One line of at most 1,024 bytes, not yet redacted or cut. */
  message: string
}

export interface Listing extends Array<Entry> {
  /** True when the search stopped before it had seen every file, to bound its work. */
  partial?: boolean
}

export interface RunIo {
  /**
   * Called in order with raw bytes. The returned promise is backpressure. The backend reuses the chunk's
   * memory once the promise resolves.
   */
  onOutput(stream: 'stdout' | 'stderr', chunk: Uint8Array): void | Promise<void>
  /**
   * Called once the program was handed over: from then on it may run even if the worker dies. Not called by
   * backends that do not know when that happens.
   */
  onHandedOver?(): void
  /** Called with the program's progress reports, at most about ten times a second. */
  onProgress?(progress: Progress): void
  stdin?: Uint8Array
  /** Raw bytes per stream that are passed to `onOutput`. Output beyond them is drained and counted. */
  maxOutputBytes: { stdout: number; stderr: number }
  /**
   * Called with each connection that the program opens to the proxy on its loopback address, as a byte stream
   * with backpressure. Set exactly when the spec's network is not `none`, and for an install, which uses the
   * package proxy.
   */
  onConnection?(connection: Duplex): void
  /** On abort, stop waiting. The caller then disposes the sandbox. */
  signal: AbortSignal
}

/** Evidence about the program's end. The executor decides from it how the attempt ended. */
export interface Exit {
  exitCode: number | null
  /** Name such as SIGKILL. Null when the program exited. */
  signal: string | null
  usage: Usage
  /** Raw bytes that the program wrote, including those beyond the bounds. */
  outputBytes: { stdout: number; stderr: number }
  /** True when bytes were drained instead of passed to `onOutput`. */
  outputDropped: { stdout: boolean; stderr: boolean }
  /** Processes of the sandbox that the kernel killed for memory during the run. */
  oomKills: number
  /** True when a fork was refused for the pids limit during the run. */
  pidsLimitHit: boolean
  /** Processes that still ran at the program's end and were killed. Undefined if not counted. */
  processesLeft?: number
  /** True when a write was refused for the disk limit (best effort). */
  diskLimitHit: boolean
  /** The script's value as JSON text, or undefined. */
  valueJson?: string
  /** The vendor's own figure for the duration of the run, in the vendor's unit. */
  serviceExecutionTime?: number
  /** Which interpreter ran the script of a session. Undefined if the session keeps none. */
  interpreter?: InterpreterFinding
}

export interface Sandbox extends AsyncDisposable {
  readonly id: SandboxId
  readonly ref: SandboxRef
  readonly isolation: Isolation
  /** True when the sandbox was started before it was needed. */
  readonly warm: boolean
  /** `fresh`: no state of an earlier execution is there. Null outside of sessions. */
  readonly session: { id: SessionId; fresh: boolean } | null
  write(files: readonly ProgramFile[]): Promise<void>
  run(program: Program, io: RunIo): Promise<Exit>
  /** Soft stop: SIGINT to the program's process group, SIGTERM after half of the grace. Never throws. */
  interrupt(): Promise<void>
  /** Reads a regular file and follows no symbolic link. Throws `payload_too_large` above `maxBytes`. */
  read(path: string, maxBytes: number): Promise<Uint8Array>
  /**
   * Regular files below the work directory that match one of the globs, at most `maxEntries`. A glob that
   * starts with `!` names folders to skip.
   */
  list(globs: readonly string[], maxEntries: number): Promise<Listing>
  /** Like `list`, for symbolic links. Undefined for backends that cannot tell links from regular files. */
  links?(globs: readonly string[], maxEntries: number): Promise<Listing>
  remove(path: string): Promise<void>
  /** Makes `dispose` destroy the sandbox and so end the session. Undefined for backends without sessions. */
  retire?(): void
  /**
   * Saves the session with its memory, so that its next `open` continues it, on any worker that reaches what
   * was saved. No program runs meanwhile, and only `dispose` may follow. If it rejects, the session is as
   * before. Undefined for backends that cannot pause.
   */
  pause?(signal: AbortSignal): Promise<void>
  /**
   * Creates paused sessions with these keys and with copies of this session's state: either all of them or
   * none. No program runs meanwhile. Undefined for backends that cannot fork.
   */
  fork?(keys: readonly string[], signal: AbortSignal): Promise<SessionFork[]>
  /**
   * Copies of matching regular files, even while a program runs. Files over the bounds are omitted. Undefined
   * for backends that cannot read during a run.
   */
  snapshot?(request: { globs: readonly string[]; maxFiles: number; maxBytes: number }): Promise<ProgramFile[]>
  usage(): Promise<Usage>
}

export interface Swept {
  destroyed: number
}

export interface Backend extends AsyncDisposable {
  readonly name: string
  readonly isolation: Isolation
  readonly capabilities: Capabilities
  /** Whether the backend works here. Cheap after the first call. The worker caches a good answer for 30 s. */
  probe(signal: AbortSignal): Promise<Probe>
  /**
   * Starts warm sandboxes before the first execution. The worker calls it once, on the first backend of its
   * order that works.
   */
  prewarm?(): void
  /** Warm sandboxes that wait for an execution now. Undefined without a pool of its own. */
  readonly idle?: number
  /**
   * Throws `backend_unavailable` (with `details.full: true` when the vendor has no capacity until another
   * sandbox ends), `capability_missing`, `interpreter_not_ready` or `sandbox_open_failed`, and for a session
   * also `conflict` or `session_not_found`. Leaves nothing behind when it throws.
   */
  open(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox>
  /** Destroys one sandbox of any owner. True when it existed. */
  kill(ref: SandboxRef): Promise<boolean>
  /** Destroys every sandbox of `owner`. */
  sweep(owner: WorkerId): Promise<Swept>
  /** Owners that have sandboxes here, to compare with the living workers. */
  owners(): Promise<WorkerId[]>
  /**
   * Ends the sandbox of a session that any worker can attach to. True when it existed. Resolves once the
   * vendor says that it is gone, and throws when that is unknown (the caller then retries). The caller holds
   * the session's lease, so no execution runs in it. Undefined for backends whose sessions end with their
   * worker.
   */
  endSession?(name: SessionName, entry: SessionEntry, signal: AbortSignal): Promise<boolean>
}
