/**
 * Brings caps that Postgres has into force. The API does the same after each change (apps/api/src/make-live.ts); a worker
 * does it for changes by raw SQL, and for a Redis that lost them.
 *
 * Whoever wrote looks again: a worker that read just before a change and wrote just after it would otherwise put the old
 * caps back, a kill switch included.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Admission } from '@cofferdam/admission'
import type { TenantCaps } from '@cofferdam/contract'
import type { Producer } from '@cofferdam/queue'

/** Changes of one tenant's caps in a row that are followed; each round means that another one came in between. */
const MAX_ROUNDS = 10

/** Returns the function that writes caps where admission and the scheduler read them. */
export function createCapsWriter(deps: {
  admission: Pick<Admission, 'setCaps'>
  producer: Pick<Producer, 'setTenantLimits'>
  loadCaps(tenantId: string): Promise<TenantCaps | null>
}): (tenantId: string, caps: TenantCaps) => Promise<void> {
  return async (tenantId, read) => {
    let caps = read
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const { weight, concurrency, max_queued } = caps
      await deps.admission.setCaps(tenantId, caps)
      await deps.producer.setTenantLimits(tenantId, { weight, concurrency, max_queued })
      const now = await deps.loadCaps(tenantId)
      if (now === null || isDeepStrictEqual(now, caps)) return
      caps = now
    }
  }
}
