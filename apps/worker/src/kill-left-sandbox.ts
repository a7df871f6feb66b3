/**
 * The sandbox of an execution whose owner vanished, killed through its ref. One of its own is killed at once. A session that any worker
 * attaches to is not its own: another execution may be in it by now, whose program must not die of this, and what earlier ones
 * left in it is to stay. Its entry says whose turn it is.
 *
 *   of no session, outside of it, or of one that a worker alone reaches ─► killed
 *   at rest: its turn had ended, only its outcome was not told ─► left
 *   in another's turn, or held by another worker, who finds a turn without an end and ends it ─► left
 *   in its turn, held by the vanished owner ─► killed
 *                        by nobody ─► killed while it is claimed, so that nobody attaches meanwhile
 */
import { isCofferdamError, type Backend, type SandboxRef, type SessionInfo } from '@cofferdam/contract'
import type { Interrupted, Taken } from '@cofferdam/queue'
import type { WorkerDeps } from './worker-deps.ts'

/** Throws what backend and registry throw. */
export async function killLeftSandbox(
  taken: Pick<Taken, 'executionId' | 'request' | 'signal'>,
  { ref, worker, ownSandbox = false }: Pick<Interrupted, 'ref' | 'worker' | 'ownSandbox'>,
  deps: Pick<WorkerDeps, 'backends' | 'sessions' | 'workerId'>,
): Promise<void> {
  // A backend that this worker has not got is swept by the janitor of one that has.
  const backend = ref === null ? undefined : deps.backends.get(ref.backend)
  if (ref === null || backend === undefined) return
  const session = ownSandbox ? null : await sharedSession(taken, backend, deps)
  if (session === null) await backend.kill(ref)
  else if (session.turn !== taken.executionId) return
  else if (session.holder === worker) await backend.kill(ref)
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
  { executionId, signal }: Pick<Taken, 'executionId' | 'signal'>,
  { tenantId, backend: vendor, key }: SessionInfo,
  backend: Backend,
  ref: SandboxRef,
  { sessions, workerId }: Pick<WorkerDeps, 'sessions' | 'workerId'>,
): Promise<void> {
  const name = { tenantId, backend: vendor, key }
  try {
    await using lease = await sessions.claim(name, workerId, { waitMs: 0, signal })
    // As it stands now that its owner, should it live, can write no more.
    if (lease.entry?.turn === executionId) await backend.kill(ref)
  } catch (error) {
    // Another worker was faster: it is that one's now.
    if (!isCofferdamError(error) || error.code !== 'conflict') throw error
  }
}
