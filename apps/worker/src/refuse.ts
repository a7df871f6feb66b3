/** Executions that may not run: policy says no, a cap is reached, or the tenant already runs as many as it may. */
import type { Refused } from '@cofferdam/admission'
import { outcomeWithoutRun } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { closeAttempt, type Closing } from './close-attempt.ts'
import type { WorkerDeps } from './worker-deps.ts'

/** A full concurrency is looked at again after at most this; the lease in the way ends or expires before. */
const CONCURRENCY_RETRY_MS = 1000
/** Deferred executions come back spread over this. */
const JITTER_MS = 1000

/** Why policy refused: of decidePolicy, or that the policy could not be read. */
export interface PolicyRefusal {
  ending: 'provisioning' | 'policy_denied'
  reason: string
  message: string
}

/** Ends an execution that policy refused. */
export async function refuseByPolicy(
  taken: Taken,
  refusal: PolicyRefusal & { retentionDays: number },
  deps: WorkerDeps,
): Promise<void> {
  const outcome = outcomeWithoutRun(refusal.ending, refusal.reason, refusal.message)
  const { retentionDays } = refusal
  await closeAttempt(taken, outcome, { chargedAtMs: null, caps: null, retentionDays }, deps)
}

/** Ends or parks an execution that admission refused. */
export async function refuseByAdmission(
  taken: Taken,
  refused: Refused,
  place: Pick<Closing, 'retentionDays' | 'environment'>,
  deps: WorkerDeps,
): Promise<void> {
  if (refused.dimension === 'tenant_concurrency')
    // Not a refusal to the caller (DESIGN §7): the scheduler holds the tenant back until a lease is free.
    return taken.defer(
      Math.min(refused.resetsAtMs, Date.now() + CONCURRENCY_RETRY_MS),
      'Waits for a free lease.',
    )
  if (taken.request.on_cap === 'defer' && !refused.killSwitch)
    return taken.defer(withJitter(refused.resetsAtMs), `Waits for the ${refused.dimension} cap.`)
  return endByCap(taken, refused, refused.dimension, place, deps)
}

/** Deferred tenants do not all come back in the same millisecond. */
const withJitter = (atMs: number): number => atMs + Math.random() * JITTER_MS

async function endByCap(
  taken: Taken,
  refused: Refused,
  dimension: 'tenant_daily' | 'agent_hourly' | 'tenant_rate' | 'unknown',
  place: Pick<Closing, 'retentionDays' | 'environment'>,
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
      ...place,
      refusal: { dimension, resetsAt, killSwitch: refused.killSwitch },
    },
    deps,
  )
}
