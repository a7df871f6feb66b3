/** From what is known of a program that is over to its outcome. */
import { BOUNDS, isCofferdamError, type Exit, type Outcome, type WorkspaceReport } from '@cofferdam/contract'
import { NO_PACKAGES } from '@cofferdam/tasks'
import type { CollectedArtifacts } from './artifacts.ts'
import type { RunEnd } from './deadlines.ts'
import { describeErrorLine } from './error-line.ts'
import { packageAccess } from './execution-egress.ts'
import { failureReason } from './failure-reason.ts'
import { placeOf, turnOf } from './held-sandbox.ts'
import type { Output } from './output.ts'
import { missingHint } from './missing-hint.ts'
import { networkHint } from './network-hint.ts'
import { keyOf, type ProgramRun } from './program-run.ts'
import { decideEnding, NOT_BEGUN, SESSION_TIMEOUT, type Evidence, type Verdict } from './verdict.ts'

/** What was taken out of the sandbox. */
export interface Collected {
  artifacts: CollectedArtifacts
  /** Undefined without a workspace. */
  workspace: WorkspaceReport | undefined
}

/** Finishes the output and decides how the attempt ended. The exit of `end` has been checked. */
export async function conclude(
  run: ProgramRun,
  output: Output,
  end: RunEnd,
  { artifacts, workspace }: Collected,
): Promise<Outcome> {
  const { attempt, held, parts, egress, task } = run
  const { exit } = end
  if (end.failure !== null) parts.log.warn({ err: end.failure, ...keyOf(attempt) }, 'the sandbox was lost')
  const value = output.value(exit?.valueJson)
  const { stdout, stderr } = await output.finish(exit?.outputBytes ?? null)
  const { limits } = attempt.request
  const errorLine = output.errorLine()
  const verdict = decideEnding({
    ...end,
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
    artifacts: artifacts.stored,
    ...(artifacts.omitted.length === 0 ? {} : { artifactsOmitted: artifacts.omitted }),
    ...(artifacts.incomplete ? { artifactsIncomplete: true } : {}),
    ...placeOf(held),
    ...(exit?.serviceExecutionTime === undefined ? {} : { serviceExecutionTime: exit.serviceExecutionTime }),
    redactionCount: output.redactionCount,
    began: verdict.reason !== NOT_BEGUN,
    outboundHosts: [...(egress?.hosts ?? [])],
    session: turnOf(held.sandbox, exit?.interpreter),
    ...(workspace === undefined ? {} : { workspace }),
  }
}

/** What the network or a missing program has to do with it is said after what happened. */
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
 * A backend that saw the kernel kill for memory says so in the error's details, for the channel may close first; so does one whose vendor
 * ended the sandbox at its time, or refused the program.
 */
function lossOf(failure: unknown): NonNullable<Evidence['lost']> {
  if (!isCofferdamError(failure)) return { reason: 'internal', oomKills: 0 }
  const { oomKills, reason } = failure.details as { oomKills?: Exit['oomKills']; reason?: unknown }
  return {
    reason: reason === SESSION_TIMEOUT || reason === NOT_BEGUN ? reason : failure.code,
    oomKills: typeof oomKills === 'number' ? oomKills : 0,
  }
}
