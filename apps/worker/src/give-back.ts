/** What a worker took and did not begin goes back, uncharged: to the head of its backlog when it drains, for a while when a vendor has no room. */
import { StopReason, type Outcome } from '@cofferdam/contract'
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

/** No backend that can run it has room now, and one will have. */
export const waitsForRoom = ({ ending, reason, began }: Outcome): boolean =>
  ending === 'provisioning' && reason === 'backend_full' && !began

/** Puts it off until there may be room, it and nothing else of its tenant; it is cancelled, shown and counted as any that waits. */
export async function putOff(
  taken: Taken,
  lease: Lease,
  { failureReason }: Outcome,
  deps: WorkerDeps,
): Promise<void> {
  await deps.admission.refund(admissionKey(taken), lease)
  await taken.putOff(deps.returnAtMs(taken.nowMs()), `Waits for room. ${failureReason?.slice(0, 300) ?? ''}`)
}
