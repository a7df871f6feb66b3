/** Leases: prolonged while the work goes on, given back at its end, free by themselves when their holder dies. */
import { keys, leaseMember } from './keys.ts'
import type { Scripts } from './scripts.ts'
import type { Lease } from './verdict.ts'

/** Leases per script call: bounds how long one call holds the server (about 2 µs each). */
const BATCH = 500

/** Prolongs leases; returns those that had run out or were released before. One call per tenant and 500 leases. */
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

/** Gives a lease back; true when it was still held by this admission. With `fadeMs` the ledger entry fades early. */
export async function releaseLease(scripts: Scripts, lease: Lease, fadeMs: number): Promise<boolean> {
  const reply = await scripts.run(
    'release',
    [keys.leases(lease.tenantId), keys.charge(lease)],
    [leaseMember(lease), lease.token, fadeMs],
  )
  return reply.code === 'released'
}

function chunks(leases: readonly Lease[]): Lease[][] {
  const count = Math.ceil(leases.length / BATCH)
  return Array.from({ length: count }, (_, i) => leases.slice(i * BATCH, (i + 1) * BATCH))
}
