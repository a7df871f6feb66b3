/**
 * Keeps the concurrency leases of this worker's running executions alive: one renewal round for all of them at a
 * third of the lease time, so that two rounds may fail before a lease runs out. A worker that dies simply stops
 * renewing, and its leases free themselves.
 */
import type { Admission, Lease, Settlement } from '@cofferdam/admission'

export interface LeaseKeeper extends AsyncDisposable {
  /** Renews the lease until the returned handle is disposed, which releases it. */
  hold(lease: Lease): HeldLease
}

export interface HeldLease extends AsyncDisposable {
  /** What the attempt was charged, once its audit row says so: told to admission with the release. Null: it was not charged. */
  settle(settlement: Settlement | null): void
}

/** Makes the keeper. `onLost` hears of leases that had run out before their renewal (the worker was stopped for too long). */
export function createLeaseKeeper(deps: {
  admission: Admission
  leaseMs: number
  onLost(lease: Lease): void
  onError(error: unknown): void
}): LeaseKeeper {
  const held = new Set<Lease>()
  let renewing: Promise<void> = Promise.resolve()
  const timer = setInterval(() => {
    renewing = renew()
  }, deps.leaseMs / 3)
  timer.unref()

  async function renew(): Promise<void> {
    if (held.size === 0) return
    try {
      const lost = await deps.admission.renew([...held])
      for (const lease of lost) if (held.has(lease)) deps.onLost(lease)
    } catch (error) {
      deps.onError(error)
    }
  }

  return {
    hold(lease) {
      held.add(lease)
      let settlement: Settlement | null = null
      return {
        settle(charged) {
          settlement = charged
        },
        async [Symbol.asyncDispose]() {
          if (!held.delete(lease)) return
          // A lease that cannot be released frees itself when it expires.
          await deps.admission
            .release(lease, { settled: true, settlement })
            .catch((error: unknown) => deps.onError(error))
        },
      }
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await renewing
    },
  }
}
