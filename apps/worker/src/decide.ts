/**
 * Decides whether a claimed execution runs on this worker now:
 *
 *   policy refuses              → ends: provisioning or policy_denied
 *   another worker has to run it → routed to it
 *   file operation of a session → no user code runs, so admission is not asked, only the kill switch
 *   admission refuses           → ends: cap_exceeded, or is requeued until the cap has room
 *   a store cannot be asked     → is requeued for a minute, then refused
 */
import {
  hasRunSession,
  largestCharge,
  outcomeWithoutRun,
  withoutSession,
  type ExecutionRequest,
  type TenantPolicy,
} from '@cofferdam/contract'
import { meetsNeed, needOf, type Taken } from '@cofferdam/queue'
import { SPANS } from '@cofferdam/telemetry'
import { attemptKey } from './attempt-charge.ts'
import type { Decision, NoRun } from './decision.ts'
import { readPolicy, type PolicyInForce, type PolicyRefusal } from './policy.ts'
import { afterRefusal } from './refused-admission.ts'
import { requeueUnchecked } from './requeue.ts'
import { inSpan } from './spans.ts'
import type { WorkerDeps } from './worker-deps.ts'

/** Charges the attempt when it may run. Throws what the queue and the session registry throw. */
export async function decide(taken: Taken, deps: WorkerDeps): Promise<Decision> {
  const policy = await readPolicy(taken, deps)
  if (!policy.allowed) return afterPolicyRefusal(taken, policy, deps)
  if (await routedElsewhere(taken, policy.tenant, deps)) return { next: 'routed' }
  if (taken.request.program.type === 'files') return decideOnFiles(taken, policy, deps)

  const verdict = await inSpan(SPANS.admission, () =>
    deps.admission.admit(attemptKey(taken), largestCharge(taken.request.limits, deps.prices)),
  )
  return verdict.admitted
    ? { next: 'run', policy, admitted: verdict }
    : afterRefusal(taken, verdict, policy, deps)
}

async function afterPolicyRefusal(taken: Taken, refusal: PolicyRefusal, deps: WorkerDeps): Promise<NoRun> {
  const back = refusal.reason === 'policy_unavailable' ? await requeueUnchecked(taken, 'policy', deps) : null
  if (back !== null) return { next: 'requeue', back }
  const { retentionDays, templateId } = refusal
  return {
    next: 'end',
    outcome: outcomeWithoutRun(refusal.ending, refusal.reason, refusal.message),
    facts: { chargedAtMs: null, caps: null, retentionDays, templateId },
    // An owner that has died may have charged the attempt.
    settles: taken.mayHaveRun ? attemptKey(taken) : null,
  }
}

/**
 * Requeues the execution for a worker that can run it. False when this worker can, or when no other can: then
 * this worker refuses it with the reason. The scheduler routes by the request alone, so a stronger isolation
 * in the tenant's policy can bring an execution to the wrong worker.
 */
export async function routedElsewhere(
  taken: Taken,
  tenant: TenantPolicy,
  deps: Pick<WorkerDeps, 'offers'>,
): Promise<boolean> {
  for (const request of waysToRun(taken.request)) {
    const need = needOf(request, tenant.min_isolation)
    if (deps.offers().some((offer) => meetsNeed(offer, need))) return false
    if (await taken.route(need)) return true
  }
  return false
}

/** An execution can run without its run session, but not without a session that its request names. */
const waysToRun = (request: ExecutionRequest): ExecutionRequest[] =>
  hasRunSession(request) ? [request, withoutSession(request)] : [request]

async function decideOnFiles(taken: Taken, policy: PolicyInForce, deps: WorkerDeps): Promise<Decision> {
  const { tenant_daily: tenantDaily } = await deps.admission.getCaps(taken.request.tenant_id)
  if (tenantDaily !== 0) return { next: 'operate', policy }
  const message = 'Executions are switched off (tenant_daily cap is 0).'
  return {
    next: 'end',
    outcome: outcomeWithoutRun('cap_exceeded', 'kill_switch', message),
    facts: { ...policy, chargedAtMs: null, caps: null },
    settles: null,
  }
}
