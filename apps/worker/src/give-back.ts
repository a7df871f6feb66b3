/** A draining worker hands back what it took but did not begin: uncharged, to the head of its backlog. */
import { StopReason } from '@cofferdam/contract'
import type { Lease } from '@cofferdam/admission'
import type { Taken } from '@cofferdam/queue'
import { admissionKey } from './admission-key.ts'
import type { WorkerDeps } from './worker-deps.ts'

export const wasDrained = (error: unknown): boolean =>
  error instanceof StopReason && error.stopCause === 'drain'

/** The consumer may have handed it back already: then `giveBack` is fenced, and the lease's token keeps the refund ours. */
export async function giveBack(taken: Taken, lease: Lease, deps: WorkerDeps): Promise<void> {
  // Uncharged, because it may be cancelled while it waits, and a cancelled waiting execution is not charged.
  await deps.admission.refund(admissionKey(taken), lease)
  await taken.giveBack()
}
