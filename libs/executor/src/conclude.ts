/** Composes the outcome of a program that has ended. */
import {
  BOUNDS,
  isCofferdamError,
  limitsInForce,
  type Exit,
  type Outcome,
  type Usage,
  type WorkspaceReport,
} from '@cofferdam/contract'
import { NO_PACKAGES } from '@cofferdam/tasks'
import { besidesEnding, keyOf, type ProgramRun } from './attempt-state.ts'
import { collectedPart, type CollectedArtifacts } from './artifacts.ts'
import type { RunEnd } from './deadlines.ts'
import { describeErrorLine } from './error-line.ts'
import { packageAccess } from './execution-egress.ts'
import { failureReason } from './failure-reason.ts'
import { placeOf, turnOf } from './held-sandbox.ts'
import type { Output } from './output.ts'
import { missingHint } from './missing-hint.ts'
import { networkHint } from './network-hint.ts'
import { decideEnding, NOT_BEGUN, SESSION_TIMEOUT, type Evidence, type Verdict } from './verdict.ts'

/** What was taken out of the sandbox, and how long the program took by our clock. */
export interface Collected {
  artifacts: CollectedArtifacts
  /** Undefined without a workspace. */
  workspace: WorkspaceReport | undefined
  wallMs: number
}

export async function conclude(
  run: ProgramRun,
  output: Output,
  end: RunEnd,
  { artifacts, workspace, wallMs }: Collected,
): Promise<Outcome> {
  const { attempt, held, parts, egress, task } = run
  const exit = end.exit === null ? null : checkedExit(end.exit, wallMs)
  if (end.failure !== null) parts.log.warn({ err: end.failure, ...keyOf(attempt) }, 'the sandbox was lost')
  const value = output.value(exit?.valueJson)
  const { stdout, stderr } = await output.finish(exit?.outputBytes ?? null)
  const { limits } = attempt.request
  const errorLine = output.errorLine()
  const verdict = decideEnding({
    ...end,
    exit,
    lost: end.failure === null ? null : lossOf(end.failure),
    outputLimitPassed:
      limits.on_output_limit === 'kill' &&
      (stdout.bytes > limits.stdout_bytes || stderr.bytes > limits.stderr_bytes),
    pidsLimit: limits.pids,
    errorLine: errorLine.line,
  })
  const refusal = isCofferdamError(end.failure) ? output.redact(end.failure.message) : ''
  const facts = { limits, exit, errorLine: describeErrorLine(errorLine), refusal }
  const redact = (text: string): string => output.redact(text)
  const usual = failureReason(verdict, facts)
  const concluded = task?.conclude(
    { ...verdict, failureReason: usual, exitCode: exit?.exitCode ?? null },
    redact,
  ) ?? {
    ...verdict,
    failureReason: reasonOf(run, usual, verdict, exit, stderr.text, redact),
  }
  return {
    ...concluded,
    exitCode: exit?.exitCode ?? null,
    signal: exit?.signal ?? null,
    stdout,
    stderr,
    ...(value === undefined ? {} : { value }),
    usage: exit?.usage ?? null,
    ...(verdict.reason === NOT_BEGUN ? {} : { limits: limitsInForce(limits) }),
    ...collectedPart(artifacts),
    ...placeOf(held),
    ...(exit?.serviceExecutionTime === undefined ? {} : { serviceExecutionTime: exit.serviceExecutionTime }),
    redactionCount: output.redactionCount,
    began: verdict.reason !== NOT_BEGUN,
    outboundHosts: [...(egress?.hosts ?? [])],
    session: turnOf(held.sandbox, exit?.interpreter),
    ...(workspace === undefined ? {} : { workspace }),
    ...besidesEnding(run),
  }
}

/** The usual failure reason, plus a hint if the network or a missing program caused the error. */
function reasonOf(
  { attempt, parts, egress, held }: ProgramRun,
  usual: string | null,
  { ending }: Verdict,
  exit: Exit | null,
  printed: string,
  redact: (text: string) => string,
): string | null {
  if (ending !== 'error' || usual === null) return usual
  const seen = packageAccess(parts.egress, egress)?.seen() ?? NO_PACKAGES
  const hint =
    networkHint(attempt.request.network, printed, seen) ??
    missingHint(held.sandbox.ref.backend, exit?.exitCode ?? null, printed)
  return hint === null ? usual : redact(`${usual} ${hint}`).slice(0, BOUNDS.failureReasonLength)
}

/**
 * The connection to a sandbox may close before it reports why. So a backend puts what it knows into the
 * error's details: memory kills by the kernel, or that the vendor ended the sandbox or refused the program.
 */
function lossOf(failure: unknown): NonNullable<Evidence['lost']> {
  if (!isCofferdamError(failure)) return { reason: 'internal', oomKills: 0 }
  const { oomKills, reason } = failure.details as { oomKills?: Exit['oomKills']; reason?: unknown }
  return {
    reason: reason === SESSION_TIMEOUT || reason === NOT_BEGUN ? reason : failure.code,
    oomKills: typeof oomKills === 'number' ? oomKills : 0,
  }
}

/** The exit that a backend reports, with impossible figures set to null so that it can be stored. */
function checkedExit({ serviceExecutionTime, ...exit }: Exit, wallMs: number): Exit {
  const serviceTime = amount(serviceExecutionTime ?? null)
  const signal =
    typeof exit.signal === 'string' && /^SIG[A-Z0-9+-]{1,12}$/.test(exit.signal) ? exit.signal : null
  return {
    ...exit,
    // A process exits or is killed. If both are reported, the signal counts.
    exitCode: signal === null ? count(exit.exitCode) : null,
    signal,
    oomKills: count(exit.oomKills) ?? 0,
    usage: checkedUsage(exit.usage, wallMs),
    ...(serviceTime === null ? {} : { serviceExecutionTime: serviceTime }),
  }
}

function checkedUsage(usage: Usage, wallMs: number): Usage {
  return {
    cpu_ms: amount(usage.cpu_ms),
    peak_memory_bytes: count(usage.peak_memory_bytes),
    read_bytes: count(usage.read_bytes),
    write_bytes: count(usage.write_bytes),
    pids_peak: count(usage.pids_peak),
    disk_bytes: count(usage.disk_bytes),
    wall_ms: amount(usage.wall_ms) ?? wallMs,
  }
}

const amount = (value: number | null): number | null =>
  value !== null && Number.isFinite(value) && value >= 0 ? value : null

const count = (value: number | null): number | null =>
  value !== null && Number.isSafeInteger(value) && value >= 0 ? value : null
