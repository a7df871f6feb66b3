/** Executions that may not run: policy says no, a cap is reached, or the tenant already runs as many as it may. */
import type { Refused } from '@cofferdam/admission'
import { largestCharge, outcomeWithoutRun, type CapDimension } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { admissionKey } from './admission-key.ts'
import { capMessage } from './cap-message.ts'
import { closeAttempt, type Closing } from './close-attempt.ts'
import { settleUnleased } from './settle-unleased.ts'
import type { WorkerDeps } from './worker-deps.ts'

/** A full concurrency is looked at again after at most this; the lease in the way ends or expires before. */
const CONCURRENCY_RETRY_MS = 1000
/** What running attempts have reserved comes back as they end, most of it soon: short enough for runs of a tenth of a second. */
const HELD_RETRY_MS = 100
/** What cannot be judged now waits for a store: its tenant gets no slot meanwhile. */
const UNJUDGED_RETRY_MS = 1000
/** Deferred executions come back spread over this. */
const JITTER_MS = 1000

/** Why policy refused: of decidePolicy, or that the policy could not be read. */
export interface PolicyRefusal {
  ending: 'provisioning' | 'policy_denied'
  reason: string
  message: string
}

/** Ends an execution that policy refused; one whose policy cannot be read is put off, for a time. */
export async function refuseByPolicy(
  taken: Taken,
  refusal: PolicyRefusal & Pick<Closing, 'retentionDays' | 'templateId'>,
  deps: WorkerDeps,
): Promise<void> {
  if (refusal.reason === 'policy_unavailable' && (await putOffUnjudged(taken, 'policy', deps))) return
  const outcome = outcomeWithoutRun(refusal.ending, refusal.reason, refusal.message)
  const { retentionDays, templateId } = refusal
  const settlement = await closeAttempt(
    taken,
    outcome,
    { chargedAtMs: null, caps: null, retentionDays, templateId },
    deps,
  )
  // An earlier owner may have been charged before it died.
  if (taken.mayHaveRun) await settleUnleased(admissionKey(taken), settlement, deps)
}

/** Puts off what cannot be judged now, uncharged; false when it has been for too long. */
async function putOffUnjudged(taken: Taken, check: string, deps: WorkerDeps): Promise<boolean> {
  const { executionId, request } = taken
  if (!(await deps.patience({ tenantId: request.tenant_id, executionId }, taken.nowMs()))) return false
  await taken.defer(
    withJitter(taken.nowMs() + UNJUDGED_RETRY_MS),
    `Waits for its ${check} check, which cannot be made now.`,
  )
  return true
}

/** Ends or parks an execution that admission refused. */
export async function refuseByAdmission(
  taken: Taken,
  refused: Refused,
  place: Pick<Closing, 'retentionDays' | 'environment' | 'templateId'>,
  deps: WorkerDeps,
): Promise<void> {
  if (refused.dimension === 'unknown' && (await putOffUnjudged(taken, 'caps', deps))) return
  if (refused.dimension === 'tenant_concurrency')
    // Not a refusal to the caller (DESIGN §7): the scheduler holds the tenant back until a lease is free.
    return taken.defer(
      Math.min(refused.resetsAtMs, taken.nowMs() + CONCURRENCY_RETRY_MS),
      'Waits for a free lease.',
    )
  if (refused.held === true)
    // Nor is this: what stands in the way is reserved for executions that run, and most of it comes back.
    return taken.defer(
      taken.nowMs() + HELD_RETRY_MS,
      `Waits for what running executions may still use of the ${refused.dimension} cap.`,
    )
  if (taken.request.on_cap === 'defer' && !refused.killSwitch && !neverFits(taken, refused, deps))
    return taken.defer(withJitter(refused.resetsAtMs), `Waits for the ${refused.dimension} cap.`)
  return endByCap(taken, refused, refused.dimension, place, deps)
}

/** Deferred tenants do not all come back in the same millisecond. */
const withJitter = (atMs: number): number => atMs + Math.random() * JITTER_MS

/** Whether the execution may use more than the whole cap: then no day will do. */
function neverFits(taken: Taken, { dimension, caps }: Refused, deps: WorkerDeps): boolean {
  const most = largestCharge(taken.request.limits, deps.prices)
  if (dimension === 'tenant_daily_cpu') return most.cpuMs / 1000 > (caps?.tenant_daily_cpu?.limit ?? 0)
  return dimension === 'tenant_daily_cost' && most.cost > (caps?.tenant_daily_cost?.limit ?? 0)
}

async function endByCap(
  taken: Taken,
  refused: Refused,
  dimension: CapDimension,
  place: Pick<Closing, 'retentionDays' | 'environment' | 'templateId'>,
  deps: WorkerDeps,
): Promise<void> {
  const resetsAt = new Date(refused.resetsAtMs).toISOString()
  const message = refused.killSwitch
    ? `Executions are switched off (${dimension} cap is 0).`
    : capMessage(dimension, refused.caps, resetsAt)
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
