/** How an attempt ended that did not come to its program, from what was thrown. */
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
import type { Attempt, ExecutorParts } from './attempt.ts'
import type { Place } from './held-sandbox.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'

/** How far an attempt came: what its outcome can tell when it ends early. */
export interface Reached {
  place: Place | null
  began: boolean
  passedOver: { backend: string; reason: string }[]
  envDropped: readonly string[]
}

/**
 * What every outcome says beside its ending: backends that could not be used, and variables that the program
 * does not get.
 */
export const around = ({ passedOver, envDropped }: Reached): Pick<Outcome, 'passedOver' | 'envDropped'> => ({
  ...(passedOver.length === 0 ? {} : { passedOver }),
  ...(envDropped.length === 0 ? {} : { envDropped }),
})

/**
 * The outcome of an attempt that did not come to its program, or of a fault of our own after it. Throws `fenced`, and the StopReason
 * `drain` before the program began.
 */
export function endedEarly(
  parts: ExecutorParts,
  attempt: Attempt,
  reached: Reached,
  error: unknown,
): Outcome {
  if (isCofferdamError(error) && error.code === 'fenced') throw error
  const ended = (...[ending, reason, message]: Parameters<typeof outcomeWithoutRun>): Outcome => ({
    ...outcomeWithoutRun(ending, reason, message),
    ...reached.place,
    ...around(reached),
    began: reached.began,
  })
  const cause = reached.began ? null : stopCauseFrom(error, attempt.signal)
  if (cause === 'lock_lost') throw new CofferdamError('fenced', undefined, { cause: error })
  if (cause === 'drain') throw error instanceof StopReason ? error : new StopReason('drain')
  if (cause !== null) return ended('cancelled', 'cancelled', 'The execution was cancelled before it began.')
  if (error instanceof TaskRefusal || error instanceof ProvisioningFailure)
    return ended(error.ending, error.reason, error.message)
  const { executionId } = attempt
  parts.log.error({ err: error, executionId, attempt: attempt.attempt }, 'an attempt failed on our side')
  if (reached.began)
    return ended('sandbox_lost', 'internal', 'Something failed on our side while the program ran.')
  return isCofferdamError(error)
    ? ended('provisioning', error.code, error.message)
    : ended('provisioning', 'internal', 'Something failed on our side before the program ran.')
}

function stopCauseFrom(error: unknown, signal: AbortSignal): StopCause | null {
  if (error instanceof StopReason) return error.stopCause
  return signal.aborted ? stopCauseOf(signal) : null
}
