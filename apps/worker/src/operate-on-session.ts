/**
 * Runs a program of type `files`: what `/v1/sessions` does with a session. It goes through the queue like an
 * execution, so that it gets the session's turn, its worker, an audit row and one ending. No user code runs,
 * so it is not charged and has no point of no return: when its worker dies, another worker repeats it.
 *
 *   end of a session that any worker can attach to → claimed, ended at its backend, forgotten
 *   pause of a session that is paused              → nothing to do
 *   anything else                                  → a turn in the session's sandbox (executor)
 */
import {
  isCofferdamError,
  isPausedEntry,
  outcomeWithoutRun,
  stopCauseOf,
  type Backend,
  type Outcome,
  type SessionId,
  type SessionName,
} from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import type { Back, End } from './decision.ts'
import type { PolicyInForce } from './policy.ts'
import { endSession } from './session-reaper.ts'
import { commonParts, requeuedWhenDrained } from './start-attempt.ts'
import type { WorkerDeps } from './worker-deps.ts'

/**
 * A turn publishes its result before it releases the session. The release takes a call or two at a vendor. A
 * caller that ends the session right after the result waits for it up to this long.
 */
const RELEASE_WAIT_MS = 5000
const CANCELLED = 'The execution was cancelled before it began.'

export async function operateOnSession(
  taken: Taken,
  policy: PolicyInForce,
  deps: WorkerDeps,
): Promise<End | Back> {
  try {
    const outcome = (await withoutOpening(taken, deps)) ?? (await takeTurn(taken, policy, deps))
    return { next: 'end', outcome, facts: { ...policy, chargedAtMs: null, caps: null }, settles: null }
  } catch (error) {
    return requeuedWhenDrained(error)
  }
}

async function takeTurn(taken: Taken, { tenant }: PolicyInForce, deps: WorkerDeps): Promise<Outcome> {
  const attempt = deps.executor.start({
    ...commonParts(taken, tenant, deps),
    request: taken.request,
    onBegin: async () => undefined,
    onOutput: () => undefined,
  })
  try {
    return await attempt.outcome
  } finally {
    await attempt.gone
  }
}

/**
 * Ends a session that any worker can attach to, or pauses one that is paused, without opening it. Null if the
 * session has to be opened for it.
 */
async function withoutOpening(taken: Taken, deps: WorkerDeps): Promise<Outcome | null> {
  const { program, session, tenant_id: tenantId } = taken.request
  if (program.type !== 'files' || session === undefined) return null
  if (program.op !== 'end' && program.op !== 'pause') return null
  const backend = deps.backends.get(taken.request.backend)
  if (backend?.endSession === undefined) return null
  const name = { tenantId, backend: backend.name, key: session.key }
  const found = await deps.sessions.find(name)
  if (found === null || found.owner !== null) return null
  if (program.op === 'end') return await endClaimed(backend, name, taken, deps)
  return isPausedEntry(found) ? done(backend, found.sessionId) : null
}

const done = (backend: Backend, id: SessionId | null): Outcome => ({
  ...outcomeWithoutRun('ok', '', ''),
  reason: null,
  failureReason: null,
  backend: backend.name,
  session: id === null ? null : { id, fresh: false, interpreter: 'none' },
})

async function endClaimed(
  backend: Backend,
  name: SessionName,
  { signal }: Taken,
  deps: WorkerDeps,
): Promise<Outcome> {
  try {
    await using lease = await deps.sessions.claim(name, deps.workerId, { waitMs: RELEASE_WAIT_MS, signal })
    const id = lease.entry?.sessionId ?? null
    await endSession(backend, lease, signal)
    return done(backend, id)
  } catch (error) {
    if (signal.aborted && stopCauseOf(signal) === 'cancelled')
      return outcomeWithoutRun('cancelled', 'cancelled', CANCELLED)
    signal.throwIfAborted()
    if (!isCofferdamError(error)) throw error
    return outcomeWithoutRun('error', error.code, error.message)
  }
}
