/** What the executor hands back for one attempt: everything the result and the audit row need, and nothing of the queue. */
import type { Ending } from './endings.ts'
import type { Isolation } from './isolation.ts'
import type { Artifact, InstallReport, OmittedArtifact, SessionTurn, TestReport, Usage } from './result.ts'
import type { WorkspaceReport } from './workspace.ts'

/** One output stream after counting, redacting and truncating (in that order). */
export interface OutputView {
  /** At most the stream's limit, cut at a UTF-8 edge. */
  text: string
  /** Raw bytes the program wrote. */
  bytes: number
  truncated: boolean
  /**
   * Reference of the full redacted stream in the blob store; null when `text` is all of it, byte for byte.
   */
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
  artifacts: (Artifact & { ref: string })[]
  /**
   * Files that matched and were left out, at most `BOUNDS.artifactsOmitted`; left out when there were none.
   */
  artifactsOmitted?: readonly OmittedArtifact[]
  /** More files may match than both lists name. */
  artifactsIncomplete?: boolean
  /** Names of the request's variables that the program did not get. */
  envDropped?: readonly string[]
  backend: string | null
  isolation: Isolation | null
  warm: boolean
  /** The vendor's place that the sandbox was made in, where a tenant has one of its own. */
  interpreterId?: string
  /** As `SandboxRef.vendorRef`; undefined where no sandbox of a vendor was opened. */
  vendorRef?: string
  /** Time to open the sandbox, milliseconds; null when none was opened. */
  openMs: number | null
  /** As `Exit.serviceExecutionTime`. */
  serviceExecutionTime?: number
  redactionCount: number
  /** Whether user code began: decides refund and retry. */
  began: boolean
  /** Public, redacted, at most 2,000 characters; null for ok. */
  failureReason: string | null
  /** Stable word for the failure, e.g. `interpreter_not_ready`, `oom_in_child`. */
  reason: string | null
  /** `host:port` of every connection that was opened, in order of first use, at most 256. */
  outboundHosts: string[]
  /** Null outside of sessions, and where no sandbox was opened. */
  session: SessionTurn | null
  /** Preferred backends that could not open a sandbox before this one did, or before the attempt gave up. */
  passedOver?: readonly { backend: string; reason: string }[]
  tests?: TestReport
  install?: InstallReport
  workspace?: WorkspaceReport
}
