/** What an attempt is charged, and how admission's counters come to match its audit row. */
import type { Admitted, AttemptKey, Settlement } from '@cofferdam/admission'
import type { AttemptRecord } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import type { AttemptResult } from './decision.ts'
import type { WorkerDeps } from './worker-deps.ts'

/** Names this attempt in admission's ledger of charges. */
export const attemptKey = (taken: Taken): AttemptKey => ({
  tenantId: taken.request.tenant_id,
  agentId: taken.request.agent_id,
  executionId: taken.executionId,
  attempt: taken.attempt,
  fence: taken.fence,
})

/**
 * When the attempt was charged, null after a refund. Refunds if user code did not begin, unless the attempt
 * was cancelled. Call it before the audit row is written.
 */
export async function finalCharge(
  taken: Taken,
  result: AttemptResult,
  admitted: Admitted,
  deps: WorkerDeps,
): Promise<number | null> {
  if (result.next === 'end' && (result.outcome.began || result.outcome.ending === 'cancelled')) {
    await deps.admission.keepCharge(admitted)
    return admitted.chargedAtMs
  }
  await deps.admission.refund(attemptKey(taken), admitted.lease)
  return null
}

/** What an audit row charges for its attempt. Null when it charges nothing. */
export function chargeIn({ audit }: Pick<AttemptRecord, 'audit'>): Settlement | null {
  return audit.quota_charged ? { cpuMs: audit.charged_cpu_ms ?? 0, cost: audit.cost ?? 0 } : null
}

/**
 * Makes admission's counters match an audit row when this worker has no lease of the attempt: its owner died,
 * it failed on our side, or it ended without an owner. Idempotent. Throws `queue_unavailable`.
 */
export async function settleCharge(
  key: AttemptKey,
  charge: Settlement | null,
  deps: Pick<WorkerDeps, 'admission'>,
): Promise<void> {
  if (charge === null) await deps.admission.refund(key)
  else await deps.admission.settle(key, charge)
}
