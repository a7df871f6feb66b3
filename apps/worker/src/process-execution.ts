/**
 * The main path: one delivered execution, carried to its ending.
 *
 *   interrupted by a dead owner? ─► recover.ts: its sandbox is killed, the attempt ends worker_lost (or is retried)
 *   policy ─► refused: provisioning | policy_denied
 *   admission ─► refused: cap_exceeded, or parked until the window resets
 *   executor ─► outcome, whatever the program did
 *   close ─► audit row first, then the result; lease and slot are freed on every path
 *
 * Relies on: taken.begin() being the point of no return, store.record() being idempotent per attempt, and
 * taken.settle() being fenced. If one of these is wrong, an execution can end twice or not at all.
 */
import type { Admitted } from '@cofferdam/admission'
import { decidePolicy } from '@cofferdam/admission'
import { outcomeWithoutRun, type Outcome } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { closeAttempt, type Charge } from './close-attempt.ts'
import { giveBack, wasDrained } from './give-back.ts'
import { recoverInterrupted } from './recover.ts'
import { refuse } from './refuse.ts'
import { inExecutionSpan, inSpan } from './spans.ts'
import type { WorkerDeps } from './worker-deps.ts'

export async function processExecution(taken: Taken, deps: WorkerDeps): Promise<void> {
  await inExecutionSpan(taken, deps.workerId, async () => {
    if (taken.interrupted !== null) return recoverInterrupted(taken, taken.interrupted, deps)

    const facts = await readFacts(taken, deps)
    const retentionDays = facts.tenant?.retention_days ?? deps.defaultRetentionDays
    const policy =
      facts.away ?? decidePolicy({ request: taken.request, tenant: facts.tenant, template: facts.template })
    if (!policy.allowed || facts.tenant === null) return refuse(taken, policy, retentionDays, deps)

    const admission = await inSpan('admission', () => deps.admission.admit(admissionKey(taken)))
    if (!admission.admitted) return refuse(taken, admission, retentionDays, deps)

    await using _lease = deps.leases.hold(admission.lease)
    let outcome: Outcome
    try {
      outcome = await deps.executor.execute({
        executionId: taken.executionId,
        attempt: taken.attempt,
        request: taken.request,
        tenant: facts.tenant,
        owner: deps.workerId,
        signal: taken.signal,
        traceparent: taken.traceparent,
        onBegin: (ref, place) => begin(taken, ref, place, admission),
        onOutput: (stream, text) => taken.emit({ type: 'output', at_ms: Date.now(), stream, text }),
      })
    } catch (error) {
      if (!wasDrained(error)) throw error
      return giveBack(taken, deps)
    }
    await closeAttempt(
      taken,
      outcome,
      { ...(await chargeOf(taken, outcome, admission, deps)), retentionDays },
      deps,
    )
  })
}

/** Policy as it stands now. With Postgres and every copy away nothing may run: fail closed. */
async function readFacts(taken: Taken, deps: WorkerDeps) {
  try {
    return { ...(await deps.policies.read(taken.request.tenant_id, taken.request.template_id)), away: null }
  } catch (error) {
    deps.logger.error(
      { err: error, execution_id: taken.executionId },
      'tenant policy cannot be read; failing closed',
    )
    const away = {
      allowed: false,
      ending: 'provisioning',
      reason: 'policy_unavailable',
      message: 'The tenant policy cannot be read now.',
    } as const
    return { tenant: null, template: null, caps: null, away }
  }
}

async function begin(
  taken: Taken,
  ref: Parameters<Taken['begin']>[0],
  place: { backend: string; isolation: string },
  admitted: Admitted,
) {
  await taken.begin(ref, { ...place, chargedAtMs: admitted.chargedAtMs })
  taken.emit({ type: 'started', at_ms: Date.now(), attempt: taken.attempt, ...place })
}

/** Refunded exactly when the platform failed before user code began; never for what the program or the caller did. */
async function chargeOf(
  taken: Taken,
  outcome: Outcome,
  admitted: Admitted,
  deps: WorkerDeps,
): Promise<Charge> {
  const refundable = !outcome.began && outcome.ending !== 'cancelled'
  if (refundable) await deps.admission.refund(admissionKey(taken))
  return { chargedAtMs: refundable ? null : admitted.chargedAtMs, caps: admitted.caps }
}

export const admissionKey = (taken: Taken) => ({
  tenantId: taken.request.tenant_id,
  agentId: taken.request.agent_id,
  executionId: taken.executionId,
  attempt: taken.attempt,
})

/** The ending of an attempt in which something on our side threw: written like any other, so that nothing vanishes. */
export async function endUnexpected(taken: Taken, error: unknown, deps: WorkerDeps): Promise<void> {
  deps.logger.error({ err: error, execution_id: taken.executionId }, 'attempt failed on our side')
  const outcome = outcomeWithoutRun(
    'provisioning',
    'internal',
    'Something failed on our side before the program ran.',
  )
  await deps.admission.refund(admissionKey(taken))
  await closeAttempt(
    taken,
    outcome,
    { chargedAtMs: null, caps: null, retentionDays: deps.defaultRetentionDays },
    deps,
  )
}
