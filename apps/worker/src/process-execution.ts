/**
 * The main path: carries one claimed execution to its ending.
 *
 *   decide (policy, routing, admission) → run → record (audit row) → complete (result visible, slot free)
 *
 * An earlier owner may have left the execution, so recovery comes first. An execution that does not run here
 * is ended without a run, requeued, or routed to another worker.
 *
 * Relies on three things: `taken.begin()` is the point of no return, `store.record()` is idempotent per
 * attempt, and `taken.settle()` is fenced. If one of them is wrong, an execution can end twice or not at all.
 */
import type { Taken } from '@cofferdam/queue'
import { attemptKey, chargeIn, finalCharge, settleCharge } from './attempt-charge.ts'
import { decide } from './decide.ts'
import type { NoRun, Run } from './decision.ts'
import { withReasonsOfOthers } from './fleet-refusal.ts'
import { operateOnSession } from './operate-on-session.ts'
import { completeAttempt, recordAttempt } from './record-attempt.ts'
import { recover } from './recover.ts'
import { requeue } from './requeue.ts'
import { inExecutionSpan } from './spans.ts'
import { startAttempt } from './start-attempt.ts'
import type { WorkerDeps } from './worker-deps.ts'

/** Resolves when the execution has ended or was requeued. Throws `fenced` when another worker owns it. */
export async function processExecution(taken: Taken, deps: WorkerDeps): Promise<void> {
  await inExecutionSpan(taken, deps.workerId, async () => {
    const decision = (await recover(taken, deps)) ?? (await decide(taken, deps))
    if (decision.next === 'run') await run(taken, decision, deps)
    else if (decision.next === 'operate')
      await finishWithoutRun(taken, await operateOnSession(taken, decision.policy, deps), deps)
    else await finishWithoutRun(taken, decision, deps)
  })
}

/** Runs an admitted attempt. On every path the lease is held until the sandbox is gone. */
async function run(taken: Taken, { policy, admitted }: Run, deps: WorkerDeps): Promise<void> {
  await using lease = deps.leases.hold(admitted.lease)
  await using attempt = await startAttempt(taken, policy.tenant, admitted, deps)
  const result = await attempt.result
  const chargedAtMs = await finalCharge(taken, result, admitted, deps)
  // Awaited before the attempt is disposed. Otherwise nobody would handle a rejection that comes meanwhile.
  if (result.next === 'requeue') return await requeue(taken, result.back)

  const facts = { ...policy, caps: admitted.caps, chargedAtMs }
  const outcome = await withReasonsOfOthers(taken, result.outcome, policy.tenant, deps)
  const recorded = await recordAttempt(taken, outcome, facts, deps)
  await completeAttempt(taken, recorded, deps)
  const charge = chargeIn(recorded.record)
  // An earlier owner’s row is the valid one and charges nothing, so the counters must not charge either.
  if (charge === null && chargedAtMs !== null) await deps.admission.refund(attemptKey(taken), admitted.lease)
  lease.settle(charge, !recorded.isInOutbox)
}

/** Carries out a decision that starts no program. */
export async function finishWithoutRun(taken: Taken, decision: NoRun, deps: WorkerDeps): Promise<void> {
  if (decision.next === 'routed') return
  if (decision.next === 'requeue') return requeue(taken, decision.back)
  const recorded =
    decision.next === 'end'
      ? await recordAttempt(taken, decision.outcome, decision.facts, deps)
      : { record: decision.record, isInOutbox: false }
  await completeAttempt(taken, recorded, deps)
  const charge = chargeIn(recorded.record)
  // A charge is settled only once its row is stored. While the row is in the outbox, admission remembers the
  // charge (`keepEarlierCharge`).
  if (decision.settles !== null && (charge === null || !recorded.isInOutbox))
    await settleCharge(decision.settles, charge, deps)
}
