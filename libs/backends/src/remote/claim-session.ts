/** The turn of one execution in a session that any worker attaches to. */
import type { SandboxSpec, SessionLease, SessionRegistry } from '@cofferdam/contract'

/**
 * Twice the lease of a worker that died. Below the executor's patience with an open (60 s): who waited in vain is told that the session is
 * in use, and no other backend is asked for a second one of the name.
 */
const WAIT_MS = 30_000

/** Claims the session that `spec` names at `backend`. Throws as `SessionRegistry.claim`. */
export async function claimSession(
  registry: SessionRegistry,
  backend: string,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<SessionLease> {
  const name = { tenantId: spec.tenantId, backend, key: spec.session?.key ?? '' }
  return await registry.claim(name, spec.owner, { waitMs: WAIT_MS, signal })
}
