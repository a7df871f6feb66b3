/**
 * The last line of defence around the main path: whatever throws in it, the execution gets an ending or an owner.
 *
 *   fenced ─► another worker owns it: what this one was charged, when it was admitted too late to begin, is given back
 *   stopped by drain or a lost lock ─► left as it is: BullMQ or the sweeper redelivers it
 *   anything else ─► ended as our failure, once; if that fails too, it is redelivered
 */
import { isCofferdamError, outcomeWithoutRun, StopReason, type CofferdamError } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { admissionKey } from './admission-key.ts'
import { closeAttempt } from './close-attempt.ts'
import { processExecution } from './process-execution.ts'
import { settleUnleased } from './settle-unleased.ts'
import type { WorkerDeps } from './worker-deps.ts'

export async function carry(taken: Taken, deps: WorkerDeps): Promise<void> {
  // An interrupted attempt was begun by its earlier owner.
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
  const watched: Taken = { ...taken, begin }
  try {
    await processExecution(watched, deps)
  } catch (error) {
    if (isFenced(error)) {
      // Its heir may have ended the attempt before this one was charged: then nobody else gives that back.
      if (!mayHaveBegun) await deps.admission.refund(admissionKey(taken))
      return
    }
    if (taken.signal.reason instanceof StopReason && taken.signal.reason.stopCause !== 'cancelled') return
    deps.logger.error({ err: error, execution_id: taken.executionId }, 'an attempt failed on our side')
    await endAsOurFailure(taken, began, deps)
  }
}

const isFenced = (error: unknown): error is CofferdamError =>
  isCofferdamError(error) && error.code === 'fenced'

/** Refunded unless user code began. */
async function endAsOurFailure(taken: Taken, began: boolean, deps: WorkerDeps): Promise<void> {
  const key = admissionKey(taken)
  if (!began) await deps.admission.refund(key)
  const outcome = began
    ? {
        ...outcomeWithoutRun(
          'sandbox_lost',
          'internal',
          'Something failed on our side while the program ran.',
        ),
        began,
      }
    : outcomeWithoutRun('provisioning', 'internal', 'Something failed on our side before the program ran.')
  const chargedAtMs = began ? await deps.admission.chargedAtMs(key) : null
  const closing = { chargedAtMs, caps: null, retentionDays: deps.defaultRetentionDays }
  await settleUnleased(key, await closeAttempt(taken, outcome, closing, deps), deps)
}
