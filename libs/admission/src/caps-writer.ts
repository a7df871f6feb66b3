/**
 * Copies settings from Postgres to Redis, where admission and the scheduler read them: caps, and whether a
 * tenant's runs have sessions. The API does it after each change. A worker does it for changes by raw SQL,
 * and if Redis lost them.
 *
 * A value that was read before a change is never written after it, so nothing undoes a kill switch. The
 * scheduler's copy has no such guard, so the writer compares once more at the end.
 */
import { isDeepStrictEqual } from 'node:util'
import type { TenantCaps, TenantPolicy } from '@cofferdam/contract'
import type { Admission } from './create-admission.ts'

/** Each further round means that another change came in between. */
const MAX_ROUNDS = 10

export function createCapsWriter(deps: {
  admission: Pick<Admission, 'setCapsSince' | 'capsRev'>
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
