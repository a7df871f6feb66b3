/**
 * Takes the files that a program leaves in its sandbox: a checkpoint, its task's report, artifacts, the
 * workspace. The program made them, so this is on its account: it has what is left of its hard deadline, and
 * the CPU time that finding and reading them took is the program's.
 */
import { unlessAborted, type Exit, type WorkspaceReport } from '@cofferdam/contract'
import { collectArtifacts, NO_ARTIFACTS, type CollectedArtifacts } from './artifacts.ts'
import type { CheckpointKeeper } from './checkpoint.ts'
import type { RunEnd } from './deadlines.ts'
import { isFenced, keyOf, listeners, type ProgramRun } from './program-run.ts'
import { SPAN } from './spans.ts'
import { withDeadline } from './with-deadline.ts'
import { leaveWorkspace } from './workspace-turn.ts'

/**
 * A program that ends at its deadline leaves files all the same: long enough for 16 MiB in 256 files from a
 * sandbox of this host.
 */
const COLLECT_LEAST_MS = 5000

/** Never rejects. */
export async function saveCheckpoint(run: ProgramRun, end: RunEnd, keeper: CheckpointKeeper): Promise<void> {
  const { attempt } = run
  if (!leavesCheckpoint(end) || attempt.checkpoint === undefined || isFenced(attempt)) return
  // Not the attempt's own signal: a drain is what checkpoints are for.
  using bound = within(run, new AbortController().signal, 'a checkpoint')
  await keeper.atEnd(bound.signal)
}

/** A program that did not end well, in a sandbox that still answers; also one that a cancel or a drain let end by itself. */
const leavesCheckpoint = ({ exit, stop, softStopped }: RunEnd): boolean =>
  exit !== null &&
  stop !== 'cancelled' &&
  (exit.exitCode !== 0 || exit.signal !== null || stop !== null || softStopped)

/** Lets the task read what it needs to conclude, where it ran to its end. */
export async function takeReport(run: ProgramRun, end: RunEnd): Promise<void> {
  if (run.task === null || !ranToItsEnd(end)) return
  using bound = within(run, run.attempt.signal, 'a report')
  await run.task.take(run.held.sandbox, bound.signal)
}

/** Never rejects; empty when the program was stopped. */
export async function takeArtifacts(
  run: ProgramRun,
  end: RunEnd,
  redact: (text: string) => string,
): Promise<CollectedArtifacts> {
  const { parts, attempt, held } = run
  const globs = attempt.request.artifacts ?? []
  if (globs.length === 0 || !ranToItsEnd(end)) return NO_ARTIFACTS
  using bound = within(run, attempt.signal, 'artifacts')
  return await collectArtifacts({
    sandbox: held.sandbox,
    globs,
    limits: attempt.request.limits,
    program: attempt.request.program,
    blobs: parts.blobs,
    key: { ...keyOf(attempt), encrypt: attempt.tenant.encrypt_outputs },
    redact,
    signal: bound.signal,
    ...listeners(run),
  })
}

/** Last of what is taken: the workspace then holds what the result says. Never rejects; undefined without a workspace. */
export async function takeWorkspace(
  run: ProgramRun,
  end: RunEnd,
  redact: (text: string) => string,
): Promise<WorkspaceReport | undefined> {
  const { parts, attempt, held } = run
  if (attempt.workspace === undefined) return undefined
  const leaving = {
    clock: parts.clock,
    turn: attempt.workspace,
    sandbox: held.sandbox,
    end,
    signal: attempt.signal,
    ...listeners(run),
  }
  const report = await run.spans.within(SPAN.workspace, () => leaveWorkspace(leaving))
  return withoutSecrets(report, redact)
}

/** The names that the program gave to its files. */
function withoutSecrets(report: WorkspaceReport, redact: (text: string) => string): WorkspaceReport {
  const shown = <T extends { path: string }>(one: T): T => ({ ...one, path: redact(one.path) })
  return {
    ...report,
    applied: report.applied.map(shown),
    conflicted: report.conflicted.map(({ path, kept_as: keptAs }) => ({
      path: redact(path),
      kept_as: keptAs === null ? null : redact(keptAs),
    })),
    refused: report.refused.map(shown),
  }
}

/**
 * The exit with the CPU time that collecting took since then, where the backend measures that. Never rejects.
 */
export async function chargeCollection(run: ProgramRun, end: RunEnd): Promise<Exit | null> {
  const { exit } = end
  if (exit === null || exit.usage.cpu_ms === null || !ranToItsEnd(end) || !collects(run)) return exit
  using bound = within(run, run.attempt.signal, 'the usage')
  try {
    const { cpu_ms } = await unlessAborted(run.held.sandbox.usage(), bound.signal)
    return { ...exit, usage: { ...exit.usage, cpu_ms: Math.max(exit.usage.cpu_ms, cpu_ms ?? 0) } }
  } catch {
    // It answers no more: what is known is what it said at the program's end.
    return exit
  }
}

const collects = ({ attempt: { request, checkpoint, workspace }, task }: ProgramRun): boolean =>
  (request.artifacts ?? []).length > 0 || checkpoint !== undefined || workspace !== undefined || task !== null

const ranToItsEnd = ({ exit, stop }: RunEnd): boolean => exit !== null && stop === null

function within({ parts, attempt, startedMs, endedMs }: ProgramRun, signal: AbortSignal, what: string) {
  const until = Math.max(startedMs + attempt.request.limits.hard_timeout_ms, endedMs + COLLECT_LEAST_MS)
  const left = Math.max(0, until - parts.clock.nowMs())
  return withDeadline(parts.clock, signal, left, () => new Error(`there was no time left for ${what}`))
}
