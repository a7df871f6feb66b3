/** The outcome of an attempt that does not reach the end of its program, made from the thrown error. */
import {
  CofferdamError,
  StopReason,
  isCofferdamError,
  outcomeWithoutRun,
  stopCauseOf,
  type Outcome,
  type StopCause,
} from '@cofferdam/contract'
import { TaskRefusal } from '@cofferdam/tasks'
import { besidesEnding, type AttemptState } from './attempt-state.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'

/**
 * The outcome of an attempt that failed before its program began, or later by a fault of ours. Throws
 * `fenced`, and the StopReason `drain` if the attempt was drained before the program began.
 */
export function endedEarly(state: AttemptState, error: unknown): Outcome {
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
