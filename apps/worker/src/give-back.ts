/** A draining worker hands back what it took but did not begin: uncharged, to the head of its backlog. */
import { StopReason } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { admissionKey } from './process-execution.ts'
import type { WorkerDeps } from './worker-deps.ts'

export const wasDrained = (error: unknown): boolean =>
  error instanceof StopReason && error.stopCause === 'drain'

export async function giveBack(taken: Taken, deps: WorkerDeps): Promise<void> {
  // Uncharged, because it may be cancelled while it waits, and a cancelled waiting execution is not charged.
  await deps.admission.refund(admissionKey(taken))
  await taken.giveBack()
}
