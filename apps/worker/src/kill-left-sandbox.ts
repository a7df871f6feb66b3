/**
 * The sandbox of an execution whose owner vanished, killed through its ref. One of its own is killed at once. A session that any worker
 * attaches to is not its own: another execution may be in it by now, whose program must not die of this.
 *
 *   of no session, or of one that a worker alone reaches ─► killed
 *   session held by the vanished owner ─► killed
 *               by another worker ─► left: that one goes on in it, or found a turn without an end and ended it
 *               by nobody ─► killed while it is claimed, so that nobody attaches meanwhile
 */
import { isCofferdamError, type Backend, type SandboxRef, type SessionInfo } from '@cofferdam/contract'
import type { Interrupted, Taken } from '@cofferdam/queue'
import type { WorkerDeps } from './worker-deps.ts'

/** Throws what backend and registry throw. */
export async function killLeftSandbox(
  taken: Pick<Taken, 'request' | 'signal'>,
  { ref, worker }: Pick<Interrupted, 'ref' | 'worker'>,
  deps: Pick<WorkerDeps, 'backends' | 'sessions' | 'workerId'>,
): Promise<void> {
  // A backend that this worker has not got is swept by the janitor of one that has.
  const backend = ref === null ? undefined : deps.backends.get(ref.backend)
  if (ref === null || backend === undefined) return
  const session = await sharedSession(taken, backend, deps)
  if (session === null || session.holder === worker) await backend.kill(ref)
  else if (session.holder === null) await killClaimed(taken, session, backend, ref, deps)
}

async function sharedSession(
  { request: { session, tenant_id: tenantId } }: Pick<Taken, 'request'>,
  { name: backend }: Backend,
  { sessions }: Pick<WorkerDeps, 'sessions'>,
): Promise<SessionInfo | null> {
  if (session === undefined) return null
  const found = await sessions.find({ tenantId, backend, key: session.key })
  return found?.owner === null ? found : null
}

/** What stands in the entry of a session whose sandbox is gone is found out by whoever comes next. */
async function killClaimed(
  { signal }: Pick<Taken, 'signal'>,
  { tenantId, backend: vendor, key }: SessionInfo,
  backend: Backend,
  ref: SandboxRef,
  { sessions, workerId }: Pick<WorkerDeps, 'sessions' | 'workerId'>,
): Promise<void> {
  const name = { tenantId, backend: vendor, key }
  try {
    await using _lease = await sessions.claim(name, workerId, { waitMs: 0, signal })
    await backend.kill(ref)
  } catch (error) {
    // Another worker was faster: it is that one's now.
    if (!isCofferdamError(error) || error.code !== 'conflict') throw error
  }
}
