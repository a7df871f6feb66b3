/**
 * Brings caps that Postgres has into force: the API after each change, a worker for changes by raw SQL, and for a Redis that lost them.
 *
 * What was read before a change is not written after it, so that nobody undoes a kill switch, not for a moment. The scheduler's
 * limits have no such guard: whoever wrote them looks again.
 */
import { isDeepStrictEqual } from 'node:util'
import type { TenantCaps } from '@cofferdam/contract'
import type { Admission } from './create-admission.ts'

/** Changes of one tenant's caps in a row that are followed; each round means that another one came in between. */
const MAX_ROUNDS = 10

/** Returns the function that writes caps where admission and the scheduler read them. Throws as its parts do. */
export function createCapsWriter(deps: {
  admission: Pick<Admission, 'setCapsSince' | 'capsRev'>
  /** The scheduler. */
  producer: {
    setTenantLimits(
      tenantId: string,
      limits: Pick<TenantCaps, 'weight' | 'concurrency' | 'max_queued'>,
    ): Promise<void>
  }
  loadCaps(tenantId: string): Promise<TenantCaps | null>
}): (tenantId: string) => Promise<void> {
  return async (tenantId) => {
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const rev = await deps.admission.capsRev(tenantId)
      const caps = await deps.loadCaps(tenantId)
      if (caps === null) return
      if (!(await deps.admission.setCapsSince(tenantId, caps, rev))) continue
      const { weight, concurrency, max_queued } = caps
      await deps.producer.setTenantLimits(tenantId, { weight, concurrency, max_queued })
      const now = await deps.loadCaps(tenantId)
      if (now === null || isDeepStrictEqual(now, caps)) return
    }
  }
}
