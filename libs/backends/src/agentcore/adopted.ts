/**
 * Sessions that waited in a worker's name and were taken for a turn: they outlive that worker, and whoever sweeps what it left must
 * know them. A session cannot be called anything else later, so that the registry says it, under the name that the service has.
 */
import { newSessionId, type SessionRegistry, type WorkerId } from '@cofferdam/contract'
import type { SessionPlace } from './data-plane.ts'

/** No tenant is called so (contract: an id begins with a letter or a digit). */
const NO_TENANT = '_waited'
/** Nobody else has the name: a claim that waits is one whose own answer was lost. */
const WAIT_MS = 5_000

export interface Adopted {
  /** From now on it is no worker's. Throws as the registry does. */
  add(name: string, id: SessionPlace, by: { owner: WorkerId; endsAtMs: number }): Promise<void>
  has(name: string): Promise<boolean>
}

/** What is written stays until the service has ended the session by itself; the reaper then finds nothing to end. */
export function adoptedIn(registry: SessionRegistry, backend: string): Adopted {
  const nameOf = (key: string) => ({ tenantId: NO_TENANT, backend, key })
  return {
    async add(name, { interpreter, session }, { owner, endsAtMs }) {
      const signal = AbortSignal.timeout(2 * WAIT_MS)
      await using lease = await registry.claim(nameOf(name), owner, { waitMs: WAIT_MS, signal })
      const nowMs = Date.now()
      await lease.keep({
        sessionId: newSessionId(),
        scope: 'interpreter',
        epoch: lease.nextEpoch,
        handle: { interpreter, session },
        createdAtMs: nowMs,
        usedAtMs: nowMs,
        idleAtMs: endsAtMs,
        expiresAtMs: endsAtMs,
      })
    },
    has: async (name) => (await registry.find(nameOf(name))) !== null,
  }
}
