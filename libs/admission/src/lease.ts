/** Leases are renewed while the work continues, released at its end, and expire when the holder dies. */
import { keys, leaseMember } from './keys.ts'
import type { Scripts } from './scripts.ts'
import type { Lease } from './verdict.ts'

/** Leases per script call: bounds how long one call holds the server (about 2 µs each). */
const BATCH = 500

/** Renews leases and returns those that had expired or been released. One script call renews up to 500. */
export async function renewLeases(
  scripts: Scripts,
  leases: readonly Lease[],
  leaseMs: number,
): Promise<Lease[]> {
  const byTenant = Map.groupBy(leases, (lease) => lease.tenantId)
  const lost = await Promise.all(
    [...byTenant].flatMap(([tenantId, group]) =>
      chunks(group).map(async (chunk) => {
        const members = chunk.map(leaseMember)
        const reply = await scripts.run('renew', [keys.leases(tenantId)], [leaseMs, ...members])
        const gone = new Set(reply.rest.slice(1))
        return chunk.filter((lease) => gone.has(leaseMember(lease)))
      }),
    ),
  )
  return lost.flat()
}

/** The charge of an ended attempt, as in its audit row. */
export interface Settlement {
  cpuMs: number
  /** Micro-units. */
  cost: number
}

/**
 * Releases a lease. True if this admission still held it. With `fadeMs` the ledger entry expires early. With
 * a settlement the reservation becomes use. Pass a null token to release for a dead owner whose attempt
 * another worker ended.
 */
export async function releaseLease(
  scripts: Scripts,
  lease: Pick<Lease, 'tenantId' | 'executionId' | 'attempt'> & { token: string | null },
  fadeMs: number,
  settlement: Settlement | null,
): Promise<boolean> {
  const reply = await scripts.run(
    'release',
    [keys.leases(lease.tenantId), keys.charge(lease), keys.open(lease.tenantId), keys.day(lease.tenantId)],
    [leaseMember(lease), lease.token ?? '', fadeMs, settlement?.cpuMs ?? '', settlement?.cost ?? ''],
  )
  return reply.code === 'released'
}

function chunks(leases: readonly Lease[]): Lease[][] {
  const count = Math.ceil(leases.length / BATCH)
  return Array.from({ length: count }, (_, i) => leases.slice(i * BATCH, (i + 1) * BATCH))
}
