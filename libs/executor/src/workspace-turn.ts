/**
 * A workspace around the program: put into the sandbox before it, merged back after it. What it does stands with the caller;
 * here stands when, and that it never takes longer than it may.
 */
import { isCofferdamError, type Sandbox, type WorkspaceReport, unlessAborted } from '@cofferdam/contract'
import { withDeadline } from './with-deadline.ts'
import type { Clock } from './clock.ts'
import type { RunEnd } from './deadlines.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'

/** What the caller does with the workspace of one attempt. */
export interface WorkspaceTurn {
  readonly name: string
  /** Puts the workspace into the sandbox, in front of the request's own files. Rejects when it cannot be whole there. */
  enter(sandbox: Sandbox, signal: AbortSignal): Promise<void>
  /** Merges back what changed; all or nothing. Rejects when it could not. */
  leave(sandbox: Sandbox, signal: AbortSignal): Promise<WorkspaceReport>
}

/** 16 MiB in a thousand files, to and from a remote sandbox, one call each. */
const TURN_TIMEOUT_MS = 60_000

/** Throws a provisioning failure, or the signal's reason. */
export async function enterWorkspace(
  clock: Clock,
  turn: WorkspaceTurn | undefined,
  sandbox: Sandbox,
  signal: AbortSignal,
): Promise<void> {
  if (turn === undefined) return
  signal.throwIfAborted()
  const timeout = new Error(`it took longer than ${TURN_TIMEOUT_MS} ms`)
  using bound = withDeadline(clock, signal, TURN_TIMEOUT_MS, timeout)
  try {
    await unlessAborted(turn.enter(sandbox, bound.signal), bound.signal)
  } catch (error) {
    signal.throwIfAborted()
    const why = isCofferdamError(error) || error === timeout ? `: ${(error as Error).message}` : ''
    throw new ProvisioningFailure(
      'prepare_failed',
      `The workspace could not be put into the sandbox${why}.`,
      { cause: error },
    )
  }
}

/** Never rejects: what could not be merged is a report and a notice, not an ending. */
export async function leaveWorkspace(options: {
  clock: Clock
  turn: WorkspaceTurn
  sandbox: Sandbox
  end: RunEnd
  signal: AbortSignal
  onNotice: (message: string) => void
  onError: (error: unknown, message: string) => void
}): Promise<WorkspaceReport> {
  const { clock, turn, sandbox, end, signal, onNotice, onError } = options
  const failed = (reason: string): WorkspaceReport => {
    onNotice(`What the program changed of workspace ${turn.name} was not taken over (${reason}).`)
    const nothing = { applied: [], conflicted: [], refused: [], omitted: 0 }
    return { name: turn.name, version: 0, status: 'failed', reason, ...nothing }
  }
  // A sandbox whose program had to be killed, or that is gone, is not believed about its files.
  if (end.exit === null || end.stop !== null) return failed('sandbox_gone')
  using bound = withDeadline(clock, signal, TURN_TIMEOUT_MS, () => new Error('a workspace took too long'))
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
