/** What the executor returns for one attempt: everything that the result and the audit row need. */
import type { Ending } from './endings.ts'
import type { Isolation } from './isolation.ts'
import type { Artifact, OmittedArtifact } from './artifact.ts'
import type { SessionTurn } from './result.ts'
import type { InstallReport, TestReport } from './task-report.ts'
import type { LimitsInForce, Usage } from './usage.ts'
import type { WorkspaceReport } from './workspace.ts'

/** One output stream after counting, redacting and truncating, in that order. */
export interface OutputView {
  /** At most the stream's limit, cut at the end of a UTF-8 character. */
  text: string
  /** Raw bytes that the program wrote. */
  bytes: number
  truncated: boolean
  /** Reference of the full redacted stream in the blob store. Null when `text` is the whole stream. */
  ref: string | null
}

export interface Outcome {
  ending: Ending
  exitCode: number | null
  signal: string | null
  stdout: OutputView
  stderr: OutputView
  value?: unknown
  usage: Usage | null
  /** Undefined if no program ran. */
  limits?: LimitsInForce
  artifacts: (Artifact & { ref: string })[]
  /** Matching files that are not artifacts, at most `BOUNDS.artifactsOmitted`. */
  artifactsOmitted?: readonly OmittedArtifact[]
  /** More files may match than `artifacts` and `artifactsOmitted` name. */
  artifactsIncomplete?: boolean
  /** As `collected_from` of the result, redacted. Undefined for everything but `collect`. */
  collectedFrom?: string
  /** Names of the request's variables that were not set. */
  envDropped?: readonly string[]
  backend: string | null
  isolation: Isolation | null
  warm: boolean
  /** The tenant's vendor resource in which the sandbox was created, if there is one. */
  interpreterId?: string
  /** As `SandboxRef.vendorRef`. */
  vendorRef?: string
  /** Time to open the sandbox, milliseconds. Null when none was opened. */
  openMs: number | null
  /** As `Exit.serviceExecutionTime`. */
  serviceExecutionTime?: number
  redactionCount: number
  /** Whether user code began. Decides about refund and retry. */
  began: boolean
  /** Public and redacted text of at most 2,000 characters. Null for `ok`. */
  failureReason: string | null
  /** Stable word for the failure, such as `interpreter_not_ready` or `oom_in_child`. */
  reason: string | null
  /**
   * `host:port` of every connection, in order of first use. At most 256, or the worker's `egress.max_names`
   * if that is more.
   */
  outboundHosts: string[]
  /** Null outside of sessions, or when no sandbox was opened. */
  session: SessionTurn | null
  /** Backends that were passed over because they could not be used for the attempt. */
  passedOver?: readonly { backend: string; reason: string }[]
  tests?: TestReport
  install?: InstallReport
  workspace?: WorkspaceReport
}
