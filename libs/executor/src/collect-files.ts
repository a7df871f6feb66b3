/**
 * Takes the files that a program leaves in its sandbox: a checkpoint, its task's report, artifacts, the
 * workspace. Collecting them belongs to the run: it uses the time left until the hard deadline, and its CPU
 * time is charged to the program.
 */
import { unlessAborted, type Exit, type WorkspaceReport } from '@cofferdam/contract'
import { collectArtifacts, NO_ARTIFACTS, type CollectedArtifacts } from './artifacts.ts'
import type { CheckpointKeeper } from './checkpoint.ts'
import { withDeadline } from './clock.ts'
import type { RunEnd } from './deadlines.ts'
import { blobKeyOf, isFenced, listeners, type ProgramRun } from './attempt-state.ts'
import { SPAN } from './spans.ts'
import { leaveWorkspace } from './workspace-turn.ts'

/**
 * Each collection has at least this time after the program ended, even if that was at its deadline. Enough
 * for 16 MiB in 256 files from a sandbox of this host.
 */
const COLLECT_LEAST_MS = 5000

/** A program that has ended, in its sandbox. */
export interface EndedRun extends ProgramRun {
  end: RunEnd
  /** When the program was handed over, and when the wait for it ended, by the clock. */
  startedMs: number
  endedMs: number
}

/** Never rejects. */
export async function saveCheckpoint(run: EndedRun, keeper: CheckpointKeeper): Promise<void> {
  const { attempt, end } = run
  if (!leavesCheckpoint(end) || attempt.checkpoint === undefined || isFenced(attempt)) return
  // Not the attempt's own signal: a drain aborts it, and the checkpoint must be saved at a drain.
  using bound = within(run, new AbortController().signal, 'a checkpoint')
  await keeper.atEnd(bound.signal)
}

/** Whether the program failed, or was stopped but not cancelled, and its sandbox still answers. */
const leavesCheckpoint = ({ exit, stop, softStopped }: RunEnd): boolean =>
  exit !== null &&
  stop !== 'cancelled' &&
  (exit.exitCode !== 0 || exit.signal !== null || stop !== null || softStopped)

/** Lets the task read its report if the program ran to its end. */
export async function takeReport(run: EndedRun): Promise<void> {
  if (run.task === null || !ranToItsEnd(run)) return
  using bound = within(run, run.attempt.signal, 'a report')
  await run.task.take(run.held.sandbox, bound.signal)
}

/** Never rejects. Empty when the program was stopped. */
export async function takeArtifacts(
  run: EndedRun,
  redact: (text: string) => string,
): Promise<CollectedArtifacts> {
  const { parts, attempt, held } = run
  const globs = attempt.request.artifacts ?? []
  if (globs.length === 0 || !ranToItsEnd(run)) return NO_ARTIFACTS
  using bound = within(run, attempt.signal, 'artifacts')
  return await collectArtifacts({
    sandbox: held.sandbox,
    globs,
    limits: attempt.request.limits,
    program: attempt.request.program,
    blobs: parts.blobs,
    key: blobKeyOf(attempt),
    redact,
    signal: bound.signal,
    ...listeners(run),
  })
}

/**
 * Merges the workspace back. Call this after the artifacts and the report are taken, so that the workspace
 * matches the result. Never rejects. Undefined if the request has no workspace.
 */
export async function takeWorkspace(
  run: EndedRun,
  redact: (text: string) => string,
): Promise<WorkspaceReport | undefined> {
  const { workspace } = run.attempt
  if (workspace === undefined) return undefined
  const report = await run.spans.within(SPAN.workspace, () => leaveWorkspace(run, workspace, run.end))
  return withoutSecrets(report, redact)
}

/** The program chose the names of its files, so they are redacted. */
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

/** The exit, with the CPU time of the collection added if the backend measures it. Never rejects. */
export async function chargeCollection(run: EndedRun): Promise<Exit | null> {
  const { exit } = run.end
  if (exit === null || exit.usage.cpu_ms === null || !ranToItsEnd(run) || !collects(run)) return exit
  using bound = within(run, run.attempt.signal, 'the usage')
  try {
    const { cpu_ms } = await unlessAborted(run.held.sandbox.usage(), bound.signal)
    return { ...exit, usage: { ...exit.usage, cpu_ms: Math.max(exit.usage.cpu_ms, cpu_ms ?? 0) } }
  } catch {
    // The sandbox no longer answers, so the CPU time that it reported at the program's end counts.
    return exit
  }
}

const collects = ({ attempt: { request, checkpoint, workspace }, task }: ProgramRun): boolean =>
  (request.artifacts ?? []).length > 0 || checkpoint !== undefined || workspace !== undefined || task !== null

const ranToItsEnd = ({ end: { exit, stop } }: EndedRun): boolean => exit !== null && stop === null

function within({ parts, attempt, startedMs, endedMs }: EndedRun, signal: AbortSignal, what: string) {
  const until = Math.max(startedMs + attempt.request.limits.hard_timeout_ms, endedMs + COLLECT_LEAST_MS)
  const left = Math.max(0, until - parts.clock.nowMs())
  return withDeadline(parts.clock, signal, left, new Error(`there was no time left for ${what}`))
}
