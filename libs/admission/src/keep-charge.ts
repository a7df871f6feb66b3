/**
 * If the Redis server restarted since an attempt was admitted, it may have lost the attempt's charge:
 *
 *   same run of the server ─► nothing to do, and Redis is not asked
 *   another run ─► counters restored from the audit rows ─► the charge is still there, or is counted again
 *
 * Must be called before the attempt's row is written, because an existing row would be counted twice. If the
 * server loses everything between this call and the row, the counters lack one attempt until their window
 * ends.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { AdmitDeps } from './admit.ts'
import { keys, leaseMember, type AttemptKey } from './keys.ts'
import type { Admitted } from './verdict.ts'
import { whenSeeded } from './when-seeded.ts'

/** The charge of an attempt, whichever worker admitted it. */
export interface EarlierCharge extends AttemptKey {
  chargedAtMs: number
}

/**
 * As `keepCharge`, for an attempt whose owner is gone and whose row is about to be written. A missing ledger
 * entry must mean that Redis lost it. So release the lease with `settled: false`, which keeps the entry's
 * TTL. Throws `queue_unavailable`.
 */
export async function keepEarlierCharge(charge: EarlierCharge, deps: AdmitDeps): Promise<void> {
  const counted = await countAgain(charge, deps.newToken(), charge.chargedAtMs, deps)
  if (!counted) throw new CofferdamError('queue_unavailable', 'counters stay unseeded')
}

/**
 * Charges the attempt again if Redis lost its charge. Returns false while the counters cannot be restored.
 */
async function countAgain(
  key: AttemptKey,
  token: string,
  chargedAtMs: number,
  deps: AdmitDeps,
): Promise<boolean> {
  const { tenantId, agentId } = key
  const counted = await whenSeeded(tenantId, deps, (serverRun) =>
    deps.scripts.run(
      'recharge',
      [
        keys.seeded(tenantId),
        keys.caps(tenantId),
        keys.charge(key),
        keys.day(tenantId),
        keys.hour(tenantId, agentId),
        keys.open(tenantId),
      ],
      [serverRun, deps.dayMs, deps.hourMs, chargedAtMs, token, leaseMember(key), deps.ledgerTtlMs, agentId],
    ),
  )
  return counted !== null
}

/** Never throws. Without an answer the row still says what was charged, and the next seeding counts it. */
export async function keepCharge(admitted: Admitted, deps: AdmitDeps): Promise<void> {
  const { lease, chargedAtMs } = admitted
  const { tenantId, executionId, token } = lease
  try {
    if ((await deps.serverRun.read()) === admitted.serverRun) return
    if (!(await countAgain(lease, token, chargedAtMs, deps))) throw new Error('counters stay unseeded')
  } catch (error) {
    deps.logger?.warn(
      { err: error, tenant_id: tenantId, execution_id: executionId },
      'a charge from before a loss of Redis could not be counted again',
    )
  }
}
