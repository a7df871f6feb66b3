/** Executions that may not run: policy says no, a cap is reached, or the tenant already runs as many as it may. */
import type { PolicyDecision, Refused } from '@cofferdam/admission'
import { outcomeWithoutRun } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { closeAttempt } from './close-attempt.ts'
import type { WorkerDeps } from './worker-deps.ts'

/** A full concurrency is looked at again after at most this; the lease in the way ends or expires before. */
const CONCURRENCY_RETRY_MS = 1000

/** Ends or parks an execution that was refused. */
export async function refuse(
  taken: Taken,
  refusal: PolicyDecision | Refused,
  retentionDays: number,
  deps: WorkerDeps,
): Promise<void> {
  if (!('admitted' in refusal)) return endByPolicy(taken, refusal, retentionDays, deps)
  if (refusal.dimension === 'tenant_concurrency')
    // Not a refusal to the caller (DESIGN §7): the scheduler holds the tenant back until a lease is free.
    return taken.defer(Math.min(refusal.resetsAtMs, Date.now() + CONCURRENCY_RETRY_MS), 'tenant_concurrency')
  if (taken.request.on_cap === 'defer' && !refusal.killSwitch)
    return taken.defer(refusal.resetsAtMs, refusal.dimension)
  return endByCap(taken, refusal, refusal.dimension, retentionDays, deps)
}

async function endByPolicy(
  taken: Taken,
  decision: PolicyDecision,
  retentionDays: number,
  deps: WorkerDeps,
): Promise<void> {
  const { ending, reason, message } = decision.allowed
    ? ({ ending: 'provisioning', reason: 'tenant_unknown', message: 'There is no such tenant.' } as const)
    : decision
  await closeAttempt(
    taken,
    outcomeWithoutRun(ending, reason, message),
    { chargedAtMs: null, caps: null, retentionDays },
    deps,
  )
}

async function endByCap(
  taken: Taken,
  refused: Refused,
  dimension: 'tenant_daily' | 'agent_hourly' | 'tenant_rate' | 'unknown',
  retentionDays: number,
  deps: WorkerDeps,
): Promise<void> {
  const resetsAt = new Date(refused.resetsAtMs).toISOString()
  const message = refused.killSwitch
    ? `Executions are switched off (${dimension} cap is 0).`
    : `The ${dimension} cap is reached; it resets at ${resetsAt}.`
  await closeAttempt(
    taken,
    outcomeWithoutRun('cap_exceeded', refused.killSwitch ? 'kill_switch' : dimension, message),
    {
      chargedAtMs: null,
      caps: refused.caps,
      retentionDays,
      refusal: { dimension, resetsAt, killSwitch: refused.killSwitch },
    },
    deps,
  )
}
