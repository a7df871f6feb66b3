/**
 * Settles with admission what was ended without the lease at hand: an attempt of a dead owner, one that failed on our
 * side, or one that ended while nobody owned it.
 */
import type { AttemptKey, Settlement } from '@cofferdam/admission'
import type { WorkerDeps } from './worker-deps.ts'

/**
 * Makes admission's counters say what the audit row says: what was reserved becomes what was charged, or an attempt that
 * its row does not charge gives its charge back. Harmless when it was done before. Throws `queue_unavailable`.
 */
export async function settleUnleased(
  key: AttemptKey,
  settlement: Settlement | null,
  deps: Pick<WorkerDeps, 'admission'>,
): Promise<void> {
  if (settlement === null) await deps.admission.refund(key)
  else await deps.admission.settle(key, settlement)
}
