/**
 * The seam to every place that makes sandboxes. Deadlines, output bounds, redaction, caps, audit, retries and
 * language choice live above it, once; a backend only makes, runs, reads and destroys.
 *
 * A program of type `files` is never given to `run`, and `open` makes no sandbox for it: a session that has
 * none is `session_not_found`.
 *
 * Life of a sandbox:   open ──write*──run──(read|list)*──dispose
 *   open     cold, or bound from a warm slot: the caller cannot tell but by time. A capability that the backend does
 *            not declare is refused here with `capability_missing`, never ignored.
 *   run      at most once for reuse scope `job`; sequential in a session. Resolves with evidence, never throws for
 *            what the program did; throws `sandbox_lost` | `protocol_violation` when the sandbox is gone or lies.
 *            A sandbox of reuse scope `session` or `tenant` is a turn in a cell: dispose ends the turn, and proves that
 *            nothing of it is left but what the session keeps; where that cannot be proven, the cell is destroyed.
 *   dispose  destroys: idempotent, callable at any moment (also while run is pending, which then rejects with
 *            `sandbox_lost`), resolves when every process of the sandbox is proven gone.
 */
import { CofferdamError } from './errors.ts'
import type { ExecutionId, SandboxId, SessionId, WorkerId } from './ids.ts'
import type { Isolation } from './isolation.ts'
import type { Duplex } from 'node:stream'
import type { Language, Program } from './program.ts'
import type { Limits, Network, SessionScope } from './request.ts'
import type { InterpreterFinding, Usage } from './result.ts'
import type { SessionEntry, SessionName } from './session-registry.ts'

export interface Capabilities {
  languages: readonly Language[]
  programs: readonly Program['type'][]
  network: readonly ('none' | 'public' | 'allow')[]
  stdin: boolean
  files: boolean
  artifacts: boolean
  /** Output arrives while the program runs. */
  streaming: boolean
  /** Session scopes it can hold; `none` also stands for reuse scope `tenant`. Empty: every execution gets a sandbox of its own. */
  sessions: readonly SessionScope[]
  /** Names of preload sets that can wait imported; `none` needs no mention. */
  preloads: readonly string[]
  /** Returns a script's value. */
  value: boolean
  /** Programs find `cofferdam.progress`, and `onProgress` hears it. Left out: they do not. */
  progress?: boolean
  /** `interrupt()` reaches the program. */
  interrupt: boolean
  /** Its sandboxes are not on the worker's host: of its memory they take what `REMOTE_HOST_MIB` says. Left out: they are. */
  remote?: boolean
  /** The longest hard deadline it supports, milliseconds; null for no bound of its own. */
  maxMs: number | null
  /** Limits that really hold here; the others are refused when a policy demands them, and listed by doctor. */
  enforces: readonly ('memory' | 'cpus' | 'pids' | 'disk')[]
  /** Fields of `Usage` that are measured; the others are null. */
  measures: readonly (keyof Usage)[]
}

/**
 * Memory of the worker's host that a sandbox elsewhere is counted with, MiB: frames on their way (1 MiB windows each way), the
 * part of its output that the result shows, and artifacts, of which 16 MiB may pass.
 */
export const REMOTE_HOST_MIB = 16

export type Probe =
  | { ok: true; /** What holds on this host, one line per feature. */ features: string[] }
  | {
      ok: false
      /** What is missing. */ why: string
      /** What to do about it, as a command where there is one. */ fix: string
    }

export interface SandboxSpec {
  sandboxId: SandboxId
  executionId: ExecutionId
  attempt: number
  tenantId: string
  /** The worker that answers for the sandbox; `sweep` finds what a dead owner left by it. */
  owner: WorkerId
  program: Program
  limits: Limits
  network: Network
  /** Sanitised environment of the program, `TRACEPARENT` included. */
  env: Record<string, string>
  /** Name of a preload set; null for none. */
  preload: string | null
  reuse: 'job' | 'session' | 'tenant'
  /** Set exactly when `reuse` is `session`. */
  session: {
    key: string
    scope: SessionScope
    idleMs: number | null
    /** `open` throws `session_not_found` where it would have to begin the session. Left out: it begins it. */
    mustExist?: boolean
  } | null
}

/** Enough for another worker to kill the sandbox. JSON, below 1 KiB, no secrets. */
export interface SandboxRef {
  backend: string
  id: SandboxId
  /** What the backend needs to find it again (container id, pid and start time, VM id, session id …). */
  handle: Record<string, string | number>
  /**
   * What the vendor's own logs call it, for whoever joins them with ours: AgentCore's session id, E2B's
   * sandbox id, `claim/pod` of a cluster, a hash of Azure's identifier, which is a secret. Left out where
   * there is no vendor. At most BOUNDS.vendorRefLength characters.
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

/** How far a program says that it is. */
export interface Progress {
  /** 0 to 1. */
  fraction: number
  /** One line of at most 1,024 bytes, neither redacted nor cut yet. */
  message: string
}

/** What was found. */
export interface Listing extends Array<Entry> {
  /** True when the search ended before it had looked at every file, because that was too much work. */
  partial?: boolean
}

export interface RunIo {
  /**
   * Called in order, with raw bytes as they come. The returned promise is backpressure; the bytes are only there until it
   * resolves, so that a flood passes through memory that is used again.
   */
  onOutput(stream: 'stdout' | 'stderr', chunk: Uint8Array): void | Promise<void>
  /**
   * Called once the program was handed over: from then on it may run, whatever becomes of the worker. Left
   * uncalled where that is not known.
   */
  onHandedOver?(): void
  /** Hears what the program says of its progress, at most about ten times a second. */
  onProgress?(progress: Progress): void
  stdin?: Uint8Array
  /** Raw bytes per stream that are handed to `onOutput`; beyond it the program's output is drained and counted. */
  maxOutputBytes: { stdout: number; stderr: number }
  /**
   * Takes each connection that the program makes to the proxy on its loopback, as a byte stream whose far end is the
   * program; backpressure is the stream's. Present exactly when the spec's network is not `none`
   * (an install has a way to the package proxy although its request asks for no network).
   */
  onConnection?(connection: Duplex): void
  /** Abort means: stop waiting. The caller disposes the sandbox. */
  signal: AbortSignal
}

/** What was seen of the program's end: evidence, not a verdict (the executor decides). */
export interface Exit {
  exitCode: number | null
  /** Name such as SIGKILL; null when it exited. */
  signal: string | null
  usage: Usage
  /** Raw bytes the program wrote, also those beyond the bounds. */
  outputBytes: { stdout: number; stderr: number }
  /** True where bytes were drained and not handed to `onOutput`. */
  outputDropped: { stdout: boolean; stderr: boolean }
  /** Processes of the sandbox that the kernel killed for memory during the run. */
  oomKills: number
  /** True when a fork was refused for the pids limit during the run. */
  pidsLimitHit: boolean
  /**
   * Processes that the program left running at its end, and that were killed then; left out where nobody
   * counts them.
   */
  processesLeft?: number
  /** True when a write was refused for the disk limit (best effort). */
  diskLimitHit: boolean
  /** JSON text of the script's value; undefined when it has none. */
  valueJson?: string
  /** What a vendor itself says that the run took, as it came, in its own unit. */
  serviceExecutionTime?: number
  /** Which interpreter a session of scope `interpreter` ran the script in; left out where none is kept. */
  interpreter?: InterpreterFinding
}

export interface Sandbox extends AsyncDisposable {
  readonly id: SandboxId
  readonly ref: SandboxRef
  readonly isolation: Isolation
  /** True when it came from a warm slot. */
  readonly warm: boolean
  /** The session it holds: `fresh` when nothing of an earlier execution is there. Null outside of sessions. */
  readonly session: { id: SessionId; fresh: boolean } | null
  write(files: readonly ProgramFile[]): Promise<void>
  run(program: Program, io: RunIo): Promise<Exit>
  /** Soft stop: SIGINT to the program's process group, SIGTERM when it still runs after half of the grace. Never throws. */
  interrupt(): Promise<void>
  /** Regular files only, no symlink is followed; throws `payload_too_large` above `maxBytes`. */
  read(path: string, maxBytes: number): Promise<Uint8Array>
  /**
   * Regular files below the work directory that match one of the globs, at most `maxEntries`. A glob that
   * begins with `!` names folders that are not entered.
   */
  list(globs: readonly string[], maxEntries: number): Promise<Listing>
  /** Symbolic links that match, as `list` has files. Left out by backends that cannot tell them. */
  links?(globs: readonly string[], maxEntries: number): Promise<Listing>
  remove(path: string): Promise<void>
  /** The session ends with this turn: dispose destroys its sandbox. Left out by backends that keep no sessions. */
  retire?(): void
  /**
   * Copies of regular files that match, also while a program runs; what is over the bounds is left out. Left out by backends
   * that cannot read beside a run.
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
  /** Can it run here? Cheap after the first call; the worker caches it for 30 s. */
  probe(signal: AbortSignal): Promise<Probe>
  /** Starts what should stand ready before the first execution. Called once, when the worker prefers this backend and its probe is good. */
  prewarm?(): void
  /**
   * Throws `backend_unavailable` (with `details.full: true` when its vendor takes no more now, and will when something ends) |
   * `capability_missing` | `interpreter_not_ready` | `sandbox_open_failed`; for a session also `conflict` |
   * `session_not_found`. Never leaves anything behind when it throws.
   */
  open(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox>
  /** Destroys one sandbox of any owner by its ref; true when something was there. */
  kill(ref: SandboxRef): Promise<boolean>
  /** Destroys everything that `owner` left. */
  sweep(owner: WorkerId): Promise<Swept>
  /** Ids of owners that have sandboxes here, so that the janitor can compare them with the living. */
  owners(): Promise<WorkerId[]>
  /**
   * Ends the sandbox of a session that any worker can attach to; true when something was there. Resolves when the vendor
   * says that it is gone, also when it was gone before; throws when that is not known, and it is asked again. Called with
   * the session's lease held, by the reaper after the idle deadline and when a caller ends the session: never while an
   * execution runs in it. Left out by backends whose sessions end with their worker.
   */
  endSession?(name: SessionName, entry: SessionEntry, signal: AbortSignal): Promise<boolean>
}

/** Throws nothing; lists what `spec` needs that `capabilities` lack, in words. Empty when it fits. */
export function missingCapabilities(
  capabilities: Capabilities,
  need: {
    program: Program
    network: Network
    stdin: boolean
    files: boolean
    artifacts: boolean
    reuse: SandboxSpec['reuse']
    sessionScope: SessionScope | null
    preload: string | null
    cpuTime: boolean
    hardTimeoutMs: number
    /** Left out: no heartbeat is waited for. */
    heartbeat?: boolean
  },
): string[] {
  const missing: string[] = []
  // Of files the backend runs nothing: it takes and gives them.
  if (need.program.type !== 'files' && !capabilities.programs.includes(need.program.type))
    missing.push(`programs of type ${need.program.type}`)
  if (need.program.type === 'script' && !capabilities.languages.includes(need.program.language))
    missing.push(`language ${need.program.language}`)
  const network = typeof need.network === 'string' ? need.network : 'allow'
  if (!capabilities.network.includes(network)) missing.push(`network ${network}`)
  if (need.stdin && !capabilities.stdin) missing.push('stdin')
  if (need.files && !capabilities.files) missing.push('files')
  if (need.artifacts && !capabilities.artifacts) missing.push('artifacts')
  if (need.reuse !== 'job' && !capabilities.sessions.includes(need.sessionScope ?? 'none'))
    missing.push(
      need.reuse === 'tenant' ? 'reuse tenant' : `sessions of scope ${need.sessionScope ?? 'none'}`,
    )
  if (need.preload !== null && !capabilities.preloads.includes(need.preload))
    missing.push(`preload ${need.preload}`)
  if (need.cpuTime && !capabilities.measures.includes('cpu_ms')) missing.push('a CPU-time limit')
  if (need.heartbeat === true && capabilities.progress !== true) missing.push('progress for a heartbeat')
  if (capabilities.maxMs !== null && need.hardTimeoutMs > capabilities.maxMs)
    missing.push(`a hard deadline of ${need.hardTimeoutMs} ms (at most ${capabilities.maxMs})`)
  return missing
}

/** What every backend's `open` begins with. Throws `capability_missing` that names the backend and all that it lacks. */
export function refuseMissing(name: string, capabilities: Capabilities, spec: SandboxSpec): void {
  const missing = missingCapabilities(capabilities, {
    program: spec.program,
    network: spec.network,
    stdin: false,
    files: false,
    artifacts: false,
    reuse: spec.reuse,
    sessionScope: spec.session?.scope ?? null,
    preload: spec.preload,
    cpuTime: spec.limits.cpu_time_ms !== undefined,
    hardTimeoutMs: spec.limits.hard_timeout_ms,
    heartbeat: spec.limits.heartbeat_timeout_ms !== undefined,
  })
  if (missing.length > 0)
    throw new CofferdamError('capability_missing', `${name} lacks ${missing.join(', ')}.`)
}
