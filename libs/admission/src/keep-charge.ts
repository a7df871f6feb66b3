/**
 * The charge of an attempt that ended in another life of the Redis server than it was admitted in:
 *
 *   same run of the server ─► nothing to do, and nothing is asked
 *   another one ─► counters made good from the audit rows ─► the charge is there still, or is counted again
 *
 * Relies on being called before the attempt's row is written: a row that was there already would be counted twice. A server that
 * loses everything between this and the row is not seen: then the counters lack one attempt until their window ends.
 */
import type { AdmitDeps } from './admit.ts'
import { keys, leaseMember } from './keys.ts'
import type { Admitted } from './verdict.ts'
import { whenSeeded } from './when-seeded.ts'

/** Never throws: without an answer the row says what was charged, and whoever makes the counters good counts it. */
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
