/**
 * A program of type `files`: what `/v1/sessions` does with a session, carried like an execution, so that it has the session's
 * turn, its worker, an audit row and one ending. No user code runs: it is charged nothing, asks no cap but the kill
 * switch, and when its worker dies another one does it again.
 *
 *   kill switch ─► refused        end, and any worker can attach ─► claimed, ended at its backend, forgotten
 *                                 otherwise ─► a turn in the session's sandbox (executor)
 */
import {
  isCofferdamError,
  outcomeWithoutRun,
  type Backend,
  type Outcome,
  type SessionName,
} from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { closeAttempt } from './close-attempt.ts'
import { endSession } from './end-session.ts'
import { wasDrained } from './give-back.ts'
import type { PolicyNow } from './read-policy.ts'
import { refusesBackend } from './refuses-backend.ts'
import type { WorkerDeps } from './worker-deps.ts'

/**
 * The session's last turn tells its result before it has given the session back, which takes a call or two at
 * a vendor. Whoever ends the session right after the result waits for that.
 */
const GIVEN_BACK_MS = 5000

export async function operateOnSession(
  taken: Taken,
  policy: Extract<PolicyNow, { allowed: true }>,
  deps: WorkerDeps,
): Promise<void> {
  const { request } = taken
  const caps = await deps.admission.getCaps(request.tenant_id)
  const isOff = caps.tenant_daily === 0
  try {
    const outcome = isOff
      ? outcomeWithoutRun(
          'cap_exceeded',
          'kill_switch',
          'Executions are switched off (tenant_daily cap is 0).',
        )
      : await outcomeOf(taken, policy, deps)
    await closeAttempt(taken, outcome, { ...policy, chargedAtMs: null, caps: null }, deps)
  } catch (error) {
    if (!wasDrained(error)) throw error
    await taken.giveBack()
  }
}

async function outcomeOf(
  taken: Taken,
  policy: Extract<PolicyNow, { allowed: true }>,
  deps: WorkerDeps,
): Promise<Outcome> {
  const ended = await endWherever(taken, deps)
  if (ended !== null) return ended
  const attempt = deps.executor.start({
    executionId: taken.executionId,
    attempt: taken.attempt,
    request: taken.request,
    tenant: policy.tenant,
    owner: deps.workerId,
    signal: taken.signal,
    traceparent: taken.traceparent,
    refusesBackend: refusesBackend(taken, deps),
    onBegin: async () => undefined,
    onOutput: () => undefined,
  })
  try {
    return await attempt.outcome
  } finally {
    await attempt.gone
  }
}

/** Ends a session that any worker can attach to without opening it; null when it is none of those. */
async function endWherever(taken: Taken, deps: WorkerDeps): Promise<Outcome | null> {
  const { program, session, tenant_id: tenantId } = taken.request
  if (program.type !== 'files' || program.op !== 'end' || session === undefined) return null
  const backend = deps.backends.get(taken.request.backend)
  if (backend?.endSession === undefined) return null
  const name = { tenantId, backend: backend.name, key: session.key }
  const found = await deps.sessions.find(name)
  return found === null || found.owner !== null ? null : await endClaimed(backend, name, taken, deps)
}

async function endClaimed(
  backend: Backend,
  name: SessionName,
  { signal }: Taken,
  deps: WorkerDeps,
): Promise<Outcome> {
  try {
    await using lease = await deps.sessions.claim(name, deps.workerId, { waitMs: GIVEN_BACK_MS, signal })
    const id = lease.entry?.sessionId ?? null
    await endSession(backend, lease, signal)
    return {
      ...outcomeWithoutRun('ok', '', ''),
      reason: null,
      failureReason: null,
      backend: backend.name,
      session: id === null ? null : { id, fresh: false, interpreter: 'none' },
    }
  } catch (error) {
    signal.throwIfAborted()
    if (!isCofferdamError(error)) throw error
    return outcomeWithoutRun('error', error.code, error.message)
  }
}
