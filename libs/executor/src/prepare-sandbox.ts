/**
 * Puts the workspace and the request's files into the sandbox, and plans the task. These are the last steps
 * that can fail before anything of the user runs.
 */
import {
  fileBytes,
  isCofferdamError,
  unlessAborted,
  type ProgramFile,
  type Sandbox,
} from '@cofferdam/contract'
import type { ExecutionEgress } from '@cofferdam/egress'
import { isTask, planTask, type Task } from '@cofferdam/tasks'
import type { AttemptState } from './attempt-state.ts'
import { withDeadline } from './clock.ts'
import { packageAccess } from './execution-egress.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'
import { SPAN } from './spans.ts'
import { TURN_TIMEOUT_MS } from './workspace-turn.ts'

/** 16 MiB of files take well under a second on a local host. A remote API gets time for a retry. */
const WRITE_TIMEOUT_MS = 30_000
/** Enough to list 100,000 files and read some manifests, also from a remote sandbox. */
const PLAN_TIMEOUT_MS = 30_000

/**
 * Returns the task that runs instead of the program, or null. Throws a provisioning failure, a task's
 * refusal, or the signal's reason.
 */
export async function prepareSandbox(
  state: AttemptState,
  sandbox: Sandbox,
  egress: ExecutionEgress | null,
): Promise<Task | null> {
  const { attempt, spans } = state
  return await spans.within(SPAN.prepare, async () => {
    const { workspace, checkpoint } = attempt
    if (workspace !== undefined)
      await bounded(state, TURN_TIMEOUT_MS, 'The workspace could not be put into the sandbox', (signal) =>
        workspace.enter(sandbox, signal),
      )
    await writeFiles(state, sandbox, checkpoint?.restore)
    return await planned(state, sandbox, egress)
  })
}

/**
 * Writes the request's files and then `restored`, which replaces files of the same path. Throws a
 * provisioning failure or the signal's reason.
 */
export async function writeFiles(
  state: AttemptState,
  sandbox: Sandbox,
  restored: readonly ProgramFile[] = [],
): Promise<void> {
  const newer = new Set(restored.map(({ path }) => path))
  const own = (state.attempt.request.files ?? []).filter(({ path }) => !newer.has(path))
  const files = own.map((file) => ({
    path: file.path,
    bytes: fileBytes(file),
    ...(file.executable === undefined ? {} : { executable: file.executable }),
  }))
  if (files.length + restored.length === 0) return
  await bounded(
    state,
    WRITE_TIMEOUT_MS,
    'The files could not be written into the sandbox',
    async (signal) => {
      if (files.length > 0) await unlessAborted(sandbox.write(files), signal)
      if (restored.length === 0) return
      // The two writes must stay separate, because each has its own bounds. A sandbox may delay a write until
      // the next request, so make a request in between.
      if (files.length > 0) await unlessAborted(sandbox.list(['*'], 1), signal)
      await unlessAborted(sandbox.write(restored), signal)
    },
  )
}

async function planned(
  { parts, attempt }: AttemptState,
  sandbox: Sandbox,
  egress: ExecutionEgress | null,
): Promise<Task | null> {
  const { request, tenant, executionId, signal } = attempt
  if (!isTask(request.program)) return null
  const timeout = new ProvisioningFailure(
    'prepare_failed',
    `The work directory could not be read in ${PLAN_TIMEOUT_MS} ms.`,
  )
  using bound = withDeadline(parts.clock, signal, PLAN_TIMEOUT_MS, timeout)
  const task = planTask(request.program, sandbox, {
    tenant,
    packages: packageAccess(parts.egress, egress),
    // Hidden, and not a name that an earlier execution of the session could have chosen.
    folder: `.${executionId}`,
  })
  return await unlessAborted(task, bound.signal)
}

/** Does `work` in at most `ms`. A failure becomes a provisioning failure, unless the attempt was stopped. */
async function bounded(
  { parts, attempt }: AttemptState,
  ms: number,
  failure: string,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  attempt.signal.throwIfAborted()
  const timeout = new Error(`it took longer than ${ms} ms`)
  using bound = withDeadline(parts.clock, attempt.signal, ms, timeout)
  try {
    await unlessAborted(work(bound.signal), bound.signal)
  } catch (error) {
    attempt.signal.throwIfAborted()
    const why = isCofferdamError(error) || error === timeout ? `: ${(error as Error).message}` : ''
    throw new ProvisioningFailure('prepare_failed', `${failure}${why}.`, { cause: error })
  }
}
