/**
 * The main path: one delivered execution, carried to its ending.
 *
 *   interrupted by a dead owner? ─► recover.ts: its sandbox is killed, the attempt ends worker_lost (or is retried)
 *   taken again, or accepted before Redis restarted? ─► recover.ts: what has an audit row is published, not run
 *   policy ─► refused: provisioning | policy_denied
 *   needs what this worker has not ─► left for a worker of the fleet that has it; refused when none has
 *   files of a session ─► operate-on-session.ts: no user code, so no admission and no point of no return
 *   admission ─► refused: cap_exceeded, or parked until the window resets
 *   what neither can judge now (a store is away) ─► put off for a minute at most, then refused
 *   executor ─► outcome, whatever the program did; no room at the vendor: put off, uncharged
 *   close ─► audit row first, then the result; lease and slot are freed on every path, and what was reserved of the
 *            caps becomes what was used
 *
 * Relies on: taken.begin() being the point of no return, store.record() being idempotent per attempt, and
 * taken.settle() being fenced. If one of these is wrong, an execution can end twice or not at all.
 */
import type { Admitted } from '@cofferdam/admission'
import { largestCharge, type Outcome, type TenantPolicy } from '@cofferdam/contract'
import type { Attempt, RunningAttempt } from '@cofferdam/executor'
import type { Taken } from '@cofferdam/queue'
import { SPANS } from '@cofferdam/telemetry'
import { admissionKey } from './admission-key.ts'
import { closeAttempt } from './close-attempt.ts'
import { giveBack, putOff, waitsForRoom, wasDrained } from './give-back.ts'
import { operateOnSession } from './operate-on-session.ts'
import { readPolicy } from './read-policy.ts'
import { recoverInterrupted, republishForgotten } from './recover.ts'
import { refuseByAdmission, refuseByPolicy } from './refuse.ts'
import { refusesBackend } from './refuses-backend.ts'
import { leftForAnother } from './route.ts'
import { inExecutionSpan, inSpan } from './spans.ts'
import type { WorkerDeps } from './worker-deps.ts'

export async function processExecution(taken: Taken, deps: WorkerDeps): Promise<void> {
  await inExecutionSpan(taken, deps.workerId, async () => {
    if (taken.interrupted !== null) return recoverInterrupted(taken, taken.interrupted, deps)
    if (taken.mayHaveRun && (await republishForgotten(taken, deps))) return

    const policy = await readPolicy(taken, deps)
    if (!policy.allowed) return refuseByPolicy(taken, policy, deps)
    if (await leftForAnother(taken, policy.tenant, deps)) return
    if (taken.request.program.type === 'files') return operateOnSession(taken, policy, deps)

    const admission = await inSpan(SPANS.admission, () =>
      deps.admission.admit(admissionKey(taken), largestCharge(taken.request.limits, deps.prices)),
    )
    if (!admission.admitted) return refuseByAdmission(taken, admission, policy, deps)

    await using lease = deps.leases.hold(admission.lease)
    const answered = Promise.withResolvers<void>()
    const checkpoint = await deps.checkpoints.open(taken, policy.tenant)
    const attempt = startAttempt(
      taken,
      policy.tenant,
      admission,
      { answered: answered.promise, checkpoint, workspace: deps.workspaces.open(taken) },
      deps,
    )
    try {
      const outcome = await attempt.outcome
      if (waitsForRoom(outcome)) return await putOff(taken, admission.lease, outcome, deps)
      const chargedAtMs = await chargeOf(taken, outcome, admission, deps)
      const closing = { ...policy, caps: admission.caps, chargedAtMs }
      const settlement = await closeAttempt(taken, outcome, closing, deps)
      // The row of an earlier owner stands, and charges nothing: then neither do the counters.
      if (settlement === null && chargedAtMs !== null)
        await deps.admission.refund(admissionKey(taken), admission.lease)
      lease.settle(settlement)
    } catch (error) {
      if (!wasDrained(error)) throw error
      await giveBack(taken, admission.lease, deps)
    } finally {
      answered.resolve()
      // Nobody waits for the sandbox's destruction but this slot and its lease.
      await attempt.gone
    }
  })
}

/** Hands the attempt to the executor. Its outcome rejects with StopReason `drain` when nothing of the user has run. */
function startAttempt(
  taken: Taken,
  tenant: TenantPolicy,
  admitted: Admitted,
  around: Pick<Attempt, 'answered' | 'checkpoint' | 'workspace'>,
  deps: WorkerDeps,
): RunningAttempt {
  return deps.executor.start({
    executionId: taken.executionId,
    attempt: taken.attempt,
    request: deps.within?.(taken.request) ?? taken.request,
    tenant,
    owner: deps.workerId,
    signal: taken.signal,
    traceparent: taken.traceparent,
    ...around,
    refusesBackend: refusesBackend(taken, deps),
    onBegin: (ref, place) => taken.begin(ref, { ...place, chargedAtMs: admitted.chargedAtMs }),
    onHandedOver: () => void taken.handOver(),
    onProgress: (progress) => taken.emit({ type: 'progress', at_ms: Date.now(), ...progress }),
    onNotice: (message) => taken.emit({ type: 'notice', at_ms: Date.now(), message }),
    onOutput: (stream, text) => taken.emit({ type: 'output', at_ms: Date.now(), stream, text }),
  })
}

/** Refunded exactly when the platform failed before user code began; never for what the program or the caller did. */
async function chargeOf(
  taken: Taken,
  outcome: Outcome,
  admitted: Admitted,
  deps: WorkerDeps,
): Promise<number | null> {
  if (outcome.began || outcome.ending === 'cancelled') {
    await deps.admission.keepCharge(admitted)
    return admitted.chargedAtMs
  }
  await deps.admission.refund(admissionKey(taken), admitted.lease)
  return null
}
