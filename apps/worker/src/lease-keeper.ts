/**
 * Keeps the concurrency leases of running executions alive. A round at each third of the lease time renews
 * all of them, so two rounds can fail before a lease expires. The leases of a dead worker expire.
 */
import type { Admission, Lease, Settlement } from '@cofferdam/admission'
import { repeat } from './periodic.ts'

export interface LeaseKeeper extends AsyncDisposable {
  /** Renews the lease until the returned handle is disposed, which releases it. */
  hold(lease: Lease): HeldLease
}

export interface HeldLease extends AsyncDisposable {
  /**
   * Sets what the audit row charges, or null if it charges nothing. The release reports this to admission.
   * `isStored`: the row is in Postgres. While the row waits in the outbox, admission must remember the
   * charge.
   */
  settle(charge: Settlement | null, isStored: boolean): void
}

/**
 * Creates the keeper. `onLost` gets leases that expired because the worker stalled and did not renew them.
 */
export function createLeaseKeeper(deps: {
  admission: Admission
  leaseMs: number
  onLost(lease: Lease): void
  onError(this: void, error: unknown): void
}): LeaseKeeper {
  const { admission, onError } = deps
  const held = new Set<Lease>()
  const renewals = repeat(renew, { everyMs: deps.leaseMs / 3, atStart: false, onError })

  async function renew(): Promise<void> {
    if (held.size === 0) return
    const lost = await admission.renew([...held])
    for (const lease of lost) if (held.has(lease)) deps.onLost(lease)
  }

  return {
    hold(lease) {
      held.add(lease)
      let settlement: Settlement | null = null
      let settled = true
      return {
        settle(charge, isStored) {
          settlement = charge
          settled = isStored
        },
        async [Symbol.asyncDispose]() {
          if (!held.delete(lease)) return
          // A lease that cannot be released expires.
          await admission.release(lease, { settled, settlement }).catch(onError)
        },
      }
    },
    [Symbol.asyncDispose]: () => renewals[Symbol.asyncDispose](),
  }
}
