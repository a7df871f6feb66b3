/**
 * Brings what Postgres has into force that admission and the scheduler read in Redis: caps, and whether a
 * tenant's runs have sessions. The API does it after each change, a worker for changes by raw SQL, and for a
 * Redis that lost them.
 *
 * What was read before a change is not written after it, so that nobody undoes a kill switch, not for a
 * moment. What the scheduler has is not guarded like this: whoever wrote it looks again.
 */
import { isDeepStrictEqual } from 'node:util'
import type { TenantCaps, TenantPolicy } from '@cofferdam/contract'
import type { Admission } from './create-admission.ts'

/** Changes of one tenant in a row that are followed; each round means that another one came in between. */
const MAX_ROUNDS = 10

/** Returns the function that writes it where admission and the scheduler read it. Throws as its parts do. */
export function createCapsWriter(deps: {
  admission: Pick<Admission, 'setCapsSince' | 'capsRev'>
  /** The scheduler. */
  producer: {
    setTenantLimits(
      tenantId: string,
      limits: Pick<TenantCaps, 'weight' | 'concurrency' | 'max_queued'>,
    ): Promise<void>
    setRunSessions(tenantId: string, shares: boolean): Promise<void>
  }
  load(tenantId: string): Promise<{ caps: TenantCaps; policy: Pick<TenantPolicy, 'run_sessions'> } | null>
}): (tenantId: string) => Promise<void> {
  return async (tenantId) => {
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const rev = await deps.admission.capsRev(tenantId)
      const read = await deps.load(tenantId)
      if (read === null) return
      const { caps, policy } = read
      if (!(await deps.admission.setCapsSince(tenantId, caps, rev))) continue
      const { weight, concurrency, max_queued } = caps
      await deps.producer.setTenantLimits(tenantId, { weight, concurrency, max_queued })
      await deps.producer.setRunSessions(tenantId, policy.run_sessions)
      const now = await deps.load(tenantId)
      if (now === null) return
      if (isDeepStrictEqual(now.caps, caps) && now.policy.run_sessions === policy.run_sessions) return
    }
  }
}
