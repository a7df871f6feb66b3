/**
 * Claims that may be there although their end was asked for: deletions that were not seen through, and creates whose answer was lost and
 * that the API server may still carry out. Their owner lives, so no janitor sweeps them: they are asked for again with each of its rounds.
 */

/** More at once are an API server that is out; what is left out ends by `shutdownTime`. */
const LEFT_MAX = 1000
/** An API server gives a request up after a minute (`--request-timeout`); then none comes late. */
const LATE_MS = 90_000

export interface LeftClaims {
  /** This create may be carried out once more, whatever becomes of the claim. */
  doubt(name: string): void
  /** Deletes it, and remembers it until it is seen to be gone for good. */
  remove(name: string): Promise<boolean>
  /** Asks again for all that is remembered. Never throws. */
  endAll(): Promise<void>
}

/** Creates an empty one. `remove` resolves when a claim is gone. */
export function createLeftClaims(remove: (name: string) => Promise<boolean>): LeftClaims {
  const doubted = new Set<string>()
  /** Until when a name may come back; 0: it only has to go. */
  const left = new Map<string, number>()

  async function end(name: string): Promise<boolean> {
    const wasThere = await remove(name)
    if ((left.get(name) ?? 0) <= Date.now()) left.delete(name)
    return wasThere
  }

  return {
    doubt: (name) => void doubted.add(name),
    async remove(name) {
      const lateUntilMs = doubted.delete(name) ? Date.now() + LATE_MS : (left.get(name) ?? 0)
      if (left.size < LEFT_MAX) left.set(name, lateUntilMs)
      return await end(name)
    },
    async endAll() {
      await Promise.allSettled([...left.keys()].map(end))
    },
  }
}
