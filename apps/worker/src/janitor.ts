/**
 * Destroys what dead workers left: at start and again and again, each backend says which owners have sandboxes there,
 * and those that no longer send heartbeats are swept. A sandbox never outlives its owner by more than
 * heartbeat time-out + JANITOR_MS (promise 6 of SPECIFICATION.md).
 */
import { fleetOf, type Backend, type WorkerId } from '@cofferdam/contract'

/** Half of the promised minute; the heartbeat time-out is the other part. */
export const JANITOR_MS = 30_000

export interface Janitor extends AsyncDisposable {
  /** One round over all backends; resolves with the number of sandboxes destroyed. */
  sweep(): Promise<number>
}

/** Makes the janitor and starts its first round. */
export function createJanitor(deps: {
  backends: ReadonlyMap<string, Backend>
  self: WorkerId
  /** At most JANITOR_MS, for the promise. */
  everyMs: number
  liveWorkers(): Promise<ReadonlySet<string>>
  onSwept(backend: string, owner: WorkerId, destroyed: number): void
  onError(error: unknown): void
}): Janitor {
  // Each backend has its own: one that hangs holds up its own leftovers alone.
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
      // Workers of another Redis on the same host beat where we cannot hear them (docs/decisions/0004).
      const ours = (await backend.owners()).filter((owner) => fleetOf(owner) === fleetOf(deps.self))
      // Asked for after the owners, so that a worker that began in between is among the living.
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

/** One after the other: two rounds at once would both find, and count, the same leftovers. `round` never rejects. */
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
