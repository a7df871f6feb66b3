/**
 * Destroys sandboxes that dead workers left. In each round every backend lists the owners of its sandboxes,
 * and those that send no heartbeats any more are swept. A sandbox never outlives its owner by more than the
 * heartbeat timeout plus JANITOR_MS (promise 6 of SPECIFICATION.md).
 */
import { fleetOf, type Backend, type WorkerId } from '@cofferdam/contract'

/** Half of the promised minute. The heartbeat timeout takes the other half. */
export const JANITOR_MS = 30_000

export interface Janitor extends AsyncDisposable {
  /** Runs one round over all backends. Resolves with the number of sandboxes that it destroyed. */
  sweep(): Promise<number>
}

/** Starts the first round, and another one every `everyMs`. */
export function createJanitor(deps: {
  backends: ReadonlyMap<string, Backend>
  self: WorkerId
  /** At most JANITOR_MS. */
  everyMs: number
  liveWorkers(): Promise<ReadonlySet<string>>
  onSwept(backend: string, owner: WorkerId, destroyed: number): void
  onError(error: unknown): void
}): Janitor {
  // Each backend has its own rounds, so that one that hangs delays no other.
  const rounds = [...deps.backends.values()].map((backend) => createRounds(() => sweepBackend(backend)))
  const sweep = async (): Promise<number> => {
    const destroyed = await Promise.all(rounds.map((each) => each.next()))
    return destroyed.reduce((sum, count) => sum + count, 0)
  }
  void sweep()
  const timer = setInterval(() => {
    for (const each of rounds) if (each.isIdle()) void each.next()
  }, deps.everyMs)
  timer.unref()

  /** Never rejects. */
  async function sweepBackend(backend: Backend): Promise<number> {
    let destroyed = 0
    try {
      if (!(await backend.probe(AbortSignal.timeout(10_000))).ok) return 0
      // We cannot hear the heartbeats of workers that use another Redis on this host (docs/decisions/0004).
      const ours = (await backend.owners()).filter((owner) => fleetOf(owner) === fleetOf(deps.self))
      // Read after the owners, so that a worker that started in between counts as alive.
      const alive = await deps.liveWorkers()
      const dead = ours.filter((owner) => owner !== deps.self && !alive.has(owner))
      for (const owner of dead) {
        const swept = await backend.sweep(owner)
        destroyed += swept.destroyed
        if (swept.destroyed > 0) deps.onSwept(backend.name, owner, swept.destroyed)
      }
    } catch (error) {
      deps.onError(error)
    }
    return destroyed
  }

  return {
    sweep,
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await Promise.all(rounds.map((each) => each.ended()))
    },
  }
}

/**
 * Runs rounds one after the other: two at once would both find and count the same sandboxes. `round` never
 * rejects.
 */
function createRounds(round: () => Promise<number>) {
  let last = Promise.resolve(0)
  let waiting = 0
  return {
    isIdle: () => waiting === 0,
    ended: () => last,
    next() {
      waiting += 1
      last = last.then(round).finally(() => {
        waiting -= 1
      })
      return last
    },
  }
}
