/**
 * Kills the sandbox of an execution whose owner died, through its ref. A session's sandbox may serve another
 * execution by now: that program and its earlier state must survive. So the session's entry decides:
 *
 *   it belongs to no session, or only one worker reaches it → killed
 *   the session is idle: only the outcome of the turn is missing → left
 *   another execution has the turn → left
 *   another worker holds the session → left, because that worker finds the unfinished turn and ends it
 *   the dead owner holds the session, in this execution's turn → killed
 *   nobody holds the session, in this execution's turn → claimed, so that nobody attaches, and killed
 */
import { isCofferdamError, type Backend, type SandboxRef, type SessionInfo } from '@cofferdam/contract'
import type { Interrupted, Taken } from '@cofferdam/queue'
import type { WorkerDeps } from './worker-deps.ts'

/** Throws what the backend and the session registry throw. */
export async function killLeftSandbox(
  taken: Pick<Taken, 'executionId' | 'request' | 'signal'>,
  { ref, worker, ownSandbox = false }: Pick<Interrupted, 'ref' | 'worker' | 'ownSandbox'>,
  deps: Pick<WorkerDeps, 'backends' | 'sessions' | 'workerId'>,
): Promise<void> {
  // Without the backend, this worker cannot kill it. The janitor of a worker that has the backend does
  // (janitor.ts).
  const backend = ref === null ? undefined : deps.backends.get(ref.backend)
  if (ref === null || backend === undefined) return
  const session = ownSandbox ? null : await sharedSession(taken, backend, deps)
  if (session === null) await backend.kill(ref)
  else if (session.turn !== taken.executionId) return
  else if (session.holder === worker) await backend.kill(ref)
  else if (session.holder === null) await killClaimed(taken, session, backend, ref, deps)
}

/** The session of the execution, if any worker can attach to it. */
async function sharedSession(
  { request: { session, tenant_id: tenantId } }: Pick<Taken, 'request'>,
  { name: backend }: Backend,
  { sessions }: Pick<WorkerDeps, 'sessions'>,
): Promise<SessionInfo | null> {
  if (session === undefined) return null
  const found = await sessions.find({ tenantId, backend, key: session.key })
  return found?.owner === null ? found : null
}

/** Keeps the session's entry. Whoever claims the session next finds out that its sandbox is gone. */
async function killClaimed(
  { executionId, signal }: Pick<Taken, 'executionId' | 'signal'>,
  { tenantId, backend: vendor, key }: SessionInfo,
  backend: Backend,
  ref: SandboxRef,
  { sessions, workerId }: Pick<WorkerDeps, 'sessions' | 'workerId'>,
): Promise<void> {
  const name = { tenantId, backend: vendor, key }
  try {
    await using lease = await sessions.claim(name, workerId, { waitMs: 0, signal })
    // Read after the claim: from now on the old owner cannot change the entry, even if it is alive.
    if (lease.entry?.turn === executionId) await backend.kill(ref)
  } catch (error) {
    // Another worker claimed it first and ends the turn.
    if (!isCofferdamError(error) || error.code !== 'conflict') throw error
  }
}
