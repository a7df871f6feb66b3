/**
 * The main path: one attempt, from the wait for memory to its outcome.
 *
 *   network ─► memory ─► sandbox (or the next backend's) ─► files ─► begin ─► program ─► outcome ─► destroy
 *
 * Until `onBegin` resolves, nothing of the user has run: every failure is a provisioning ending and may be
 * retried. After it the program counts as begun. The sandbox and its memory are released on every path.
 */
import {
  hasRunSession,
  reuseOf,
  type Outcome,
  type Sandbox,
  CofferdamError,
  StopReason,
  isCofferdamError,
  outcomeWithoutRun,
  stopCauseOf,
  type StopCause,
} from '@cofferdam/contract'
import { TaskRefusal } from '@cofferdam/tasks'
import { acquireSandbox } from './acquire-sandbox.ts'
import { startAttempt, type AttemptState, besidesEnding } from './attempt-state.ts'
import type { Attempt, ExecutorParts } from './attempt.ts'
import { settlesWithin } from './clock.ts'
import { openWayOut } from './execution-egress.ts'
import { operateOnFiles } from './file-operation.ts'
import { hostMemory } from './host-memory.ts'
import { prepareSandbox } from './prepare-sandbox.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'
import { runProgram } from './run-program.ts'

/**
 * How long the destruction of a sandbox waits for the outcome to be published. If publishing takes longer, it
 * waits for a store and not for the CPU that the destruction would use.
 */
const ANSWER_FIRST_MS = 100

/**
 * Runs one attempt and destroys its sandbox. Calls `onOutcome` with the outcome of a program as soon as it is
 * known, before the sandbox is gone. Rejects with `fenced`, and with the StopReason `drain` if the attempt
 * was drained before the program began.
 */
export async function execute(
  parts: ExecutorParts,
  asked: Attempt,
  onOutcome: (outcome: Outcome) => void = () => undefined,
): Promise<Outcome> {
  const state = startAttempt(parts, asked)
  const { request, tenant, signal } = state.attempt
  try {
    const wayOut = openWayOut(parts.egress, request, tenant, signal)
    await using egress = wayOut.egress
    using memory = await parts.memory.acquire(hostMemory(parts, request), signal)
    await using held = await acquireSandbox(state, wayOut, memory)
    if (request.program.type === 'files') return await operateOnFiles(state, request.program, held)
    const task = await prepareSandbox(state, held.sandbox, egress)
    await begin(state, held.sandbox)
    const outcome = await runProgram({ ...state, held, egress, task })
    onOutcome(outcome)
    await untilAnswered(state, held.sandbox)
    return outcome
  } catch (error) {
    return endedEarly(state, error)
  }
}

/** The point of no return. */
async function begin(state: AttemptState, sandbox: Sandbox): Promise<void> {
  const { attempt } = state
  attempt.signal.throwIfAborted()
  const { ref, isolation } = sandbox
  const session = sandbox.session === null ? {} : { sessionId: sandbox.session.id }
  const own = leftRunSession(state, sandbox) ? { ownSandbox: true } : session
  await attempt.onBegin(ref, { backend: ref.backend, isolation, ...own })
  state.began = true
}

/**
 * Destroying a single-use sandbox takes CPU time in daemon and kernel that would delay the publishing of the
 * outcome (docker: 13 of 20 ms, measured). A reusable sandbox is cleaned at once, because its next execution
 * may be waiting.
 */
async function untilAnswered(state: AttemptState, sandbox: Sandbox): Promise<void> {
  const { answered, request } = state.attempt
  if (answered !== undefined && (reuseOf(request) === 'job' || leftRunSession(state, sandbox)))
    await settlesWithin(state.parts.clock, ANSWER_FIRST_MS, answered)
}

/** Whether a request with the session of its run got its own sandbox instead. */
const leftRunSession = ({ attempt }: AttemptState, { session }: Sandbox): boolean =>
  session === null && hasRunSession(attempt.request)

/**
 * Makes the outcome from the thrown error, if the attempt failed before its program began, or later by a
 * fault of ours. Throws `fenced`, and the StopReason `drain` if the attempt was drained before the program
 * began.
 */
function endedEarly(state: AttemptState, error: unknown): Outcome {
  const { parts, attempt, began } = state
  if (isCofferdamError(error) && error.code === 'fenced') throw error
  const ended = (...[ending, reason, message]: Parameters<typeof outcomeWithoutRun>): Outcome => ({
    ...outcomeWithoutRun(ending, reason, message),
    ...state.place,
    ...besidesEnding(state),
    began,
  })
  const cause = began ? null : stopCauseFrom(error, attempt.signal)
  if (cause === 'lock_lost') throw new CofferdamError('fenced', undefined, { cause: error })
  if (cause === 'drain') throw error instanceof StopReason ? error : new StopReason('drain')
  if (cause !== null) return ended('cancelled', 'cancelled', 'The execution was cancelled before it began.')
  if (error instanceof TaskRefusal || error instanceof ProvisioningFailure)
    return ended(error.ending, error.reason, error.message)
  const { executionId } = attempt
  parts.log.error({ err: error, executionId, attempt: attempt.attempt }, 'an attempt failed on our side')
  if (began) return ended('sandbox_lost', 'internal', 'Something failed on our side while the program ran.')
  return isCofferdamError(error)
    ? ended('provisioning', error.code, error.message)
    : ended('provisioning', 'internal', 'Something failed on our side before the program ran.')
}

function stopCauseFrom(error: unknown, signal: AbortSignal): StopCause | null {
  if (error instanceof StopReason) return error.stopCause
  return signal.aborted ? stopCauseOf(signal) : null
}
