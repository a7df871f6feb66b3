/** Takes the files that a program leaves in its sandbox: a checkpoint, its task's report, artifacts, the workspace; each within its time. */
import type { WorkspaceReport } from '@cofferdam/contract'
import { collectArtifacts, type StoredArtifact } from './artifacts.ts'
import type { CheckpointKeeper } from './checkpoint.ts'
import type { RunEnd } from './deadlines.ts'
import { isFenced, keyOf, listeners, type ProgramRun } from './program-run.ts'
import { SPAN } from './spans.ts'
import { withDeadline } from './with-deadline.ts'
import { leaveWorkspace } from './workspace-turn.ts'

/** 16 MiB of artifacts in 256 files, from a remote sandbox; the program's own time is over by then. */
const COLLECT_TIMEOUT_MS = 30_000

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
export async function takeArtifacts(run: ProgramRun, end: RunEnd): Promise<StoredArtifact[]> {
  const { parts, attempt, held } = run
  const globs = attempt.request.artifacts ?? []
  if (globs.length === 0 || !ranToItsEnd(end)) return []
  using bound = within(run, attempt.signal, 'artifacts')
  return await collectArtifacts({
    sandbox: held.sandbox,
    globs,
    program: attempt.request.program,
    blobs: parts.blobs,
    key: { ...keyOf(attempt), encrypt: attempt.tenant.encrypt_outputs },
    signal: bound.signal,
    ...listeners(run),
  })
}

/** Last of what is taken: the workspace then holds what the result says. Never rejects; undefined without a workspace. */
export async function takeWorkspace(run: ProgramRun, end: RunEnd): Promise<WorkspaceReport | undefined> {
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
  return await run.spans.within(SPAN.workspace, () => leaveWorkspace(leaving))
}

const ranToItsEnd = ({ exit, stop }: RunEnd): boolean => exit !== null && stop === null

const within = ({ parts }: ProgramRun, signal: AbortSignal, what: string) =>
  withDeadline(
    parts.clock,
    signal,
    COLLECT_TIMEOUT_MS,
    () => new Error(`${what} took longer than ${COLLECT_TIMEOUT_MS} ms`),
  )
