/**
 * Processes an execution and handles whatever the main path throws, so that every execution ends or has an
 * owner:
 *
 *   fenced                      → another worker owns it. This worker refunds its charge if no program began
 *   stopped by drain, lock lost → left as it is: the queue delivers it again
 *   anything else               → ends as our failure, once. If that fails too, the queue delivers it again
 */
import { isCofferdamError, outcomeWithoutRun, StopReason, type CofferdamError } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { attemptKey } from './attempt-charge.ts'
import { finishWithoutRun, processExecution } from './process-execution.ts'
import type { WorkerDeps } from './worker-deps.ts'

/** Runs one attempt. After a failure of ours it ends the execution, and rejects only if that fails too. */
export async function handleExecution(taken: Taken, deps: WorkerDeps): Promise<void> {
  // If the attempt is `interrupted`, an earlier worker had already begun it.
  let began = taken.interrupted !== null
  let mayHaveBegun = began
  const begin: Taken['begin'] = async (...args) => {
    mayHaveBegun = true
    try {
      await taken.begin(...args)
      began = true
    } catch (error) {
      if (isFenced(error) && error.details['unbegun'] === true) mayHaveBegun = false
      throw error
    }
  }
  try {
    await processExecution({ ...taken, begin }, deps)
  } catch (error) {
    if (isFenced(error)) {
      // The new owner may have ended the attempt before this worker charged it. Then nobody else refunds the
      // charge.
      if (!mayHaveBegun) await deps.admission.refund(attemptKey(taken))
    } else if (!wasStopped(taken)) {
      deps.logger.error({ err: error, execution_id: taken.executionId }, 'an attempt failed on our side')
      await endAsOurFailure(taken, began, deps)
    }
  }
}

const isFenced = (error: unknown): error is CofferdamError =>
  isCofferdamError(error) && error.code === 'fenced'

/** Stopped by a drain or a lost lock. A cancelled execution still has to end. */
const wasStopped = ({ signal }: Taken): boolean =>
  signal.reason instanceof StopReason && signal.reason.stopCause !== 'cancelled'

/** Refunds the charge unless user code began. */
async function endAsOurFailure(taken: Taken, began: boolean, deps: WorkerDeps): Promise<void> {
  const key = attemptKey(taken)
  if (!began) await deps.admission.refund(key)
  const outcome = began
    ? outcomeWithoutRun('sandbox_lost', 'internal', 'Something failed on our side while the program ran.')
    : outcomeWithoutRun('provisioning', 'internal', 'Something failed on our side before the program ran.')
  const chargedAtMs = began ? await deps.admission.chargedAtMs(key) : null
  const facts = { chargedAtMs, caps: null, retentionDays: deps.defaultRetentionDays }
  await finishWithoutRun(taken, { next: 'end', outcome: { ...outcome, began }, facts, settles: key }, deps)
}
