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
import type { AdmitDeps } from './admit.ts'
import { keys, leaseMember } from './keys.ts'
import type { Admitted } from './verdict.ts'
import { whenSeeded } from './when-seeded.ts'

/** Never throws. Without an answer the row still says what was charged, and the next seeding counts it. */
export async function keepCharge(admitted: Admitted, deps: AdmitDeps): Promise<void> {
  const { lease, chargedAtMs } = admitted
  const { tenantId, agentId, executionId, token } = lease
  try {
    if ((await deps.serverRun.read()) === admitted.serverRun) return
    const counted = await whenSeeded(tenantId, deps, (serverRun) =>
      deps.scripts.run(
        'recharge',
        [
          keys.seeded(tenantId),
          keys.caps(tenantId),
          keys.charge(lease),
          keys.day(tenantId),
          keys.hour(tenantId, agentId),
          keys.open(tenantId),
        ],
        [
          serverRun,
          deps.dayMs,
          deps.hourMs,
          chargedAtMs,
          token,
          leaseMember(lease),
          deps.ledgerTtlMs,
          agentId,
        ],
      ),
    )
    if (counted === null) throw new Error('counters stay unseeded')
  } catch (error) {
    deps.logger?.warn(
      { err: error, tenant_id: tenantId, execution_id: executionId },
      'a charge from before a loss of Redis could not be counted again',
    )
  }
}
