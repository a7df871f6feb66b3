/** Merges a workspace back after the program, by the `WorkspaceTurn` of the caller. */
import { isCofferdamError, type WorkspaceReport, unlessAborted } from '@cofferdam/contract'
import { withDeadline } from './clock.ts'
import type { WorkspaceTurn } from './attempt.ts'
import { listeners, type ProgramRun } from './attempt-state.ts'
import type { RunEnd } from './deadlines.ts'

/**
 * Time to copy a workspace into the sandbox, and the same time again to merge it back. Enough for 16 MiB in a
 * thousand files of a remote sandbox, at one call per file.
 */
export const TURN_TIMEOUT_MS = 60_000

/** Merges the workspace back. Never rejects: a failure is reported with a notice and changes no ending. */
export async function leaveWorkspace(
  run: ProgramRun,
  turn: WorkspaceTurn,
  end: RunEnd,
): Promise<WorkspaceReport> {
  const { onNotice, onError } = listeners(run)
  const { sandbox } = run.held
  const failed = (reason: string): WorkspaceReport => {
    onNotice(`What the program changed of workspace ${turn.name} was not taken over (${reason}).`)
    const nothing = { applied: [], conflicted: [], refused: [], omitted: 0 }
    return { name: turn.name, version: 0, status: 'failed', reason, ...nothing }
  }
  // A sandbox that is gone, or whose program had to be killed, is not trusted about its files.
  if (end.exit === null || end.stop !== null) return failed('sandbox_gone')
  const timeout = new Error('a workspace took too long')
  using bound = withDeadline(run.parts.clock, run.attempt.signal, TURN_TIMEOUT_MS, timeout)
  try {
    const report = await unlessAborted(turn.leave(sandbox, bound.signal), bound.signal)
    for (const [count, what] of [
      [report.conflicted.length, 'changed on both sides'],
      [report.refused.length, 'refused'],
    ] as const)
      if (count > 0) onNotice(`Workspace ${turn.name}: ${count} path(s) ${what}; see the result.`)
    return report
  } catch (error) {
    onError(error, 'a workspace could not be merged back')
    return failed(isCofferdamError(error) ? error.code : bound.signal.aborted ? 'timeout' : 'internal')
  }
}
