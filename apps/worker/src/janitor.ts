/**
 * Destroys what dead workers left: at start and every minute, each backend says which owners have sandboxes there,
 * and those that no longer send heartbeats are swept. A sandbox never outlives its owner by more than
 * heartbeat time-out + INTERVAL_MS (promise 6 of SPECIFICATION.md).
 */
import { fleetOf, type Backend, type WorkerId } from '@cofferdam/contract'

/** Half of the promised minute; the heartbeat time-out is the other part. */
const INTERVAL_MS = 30_000

export interface Janitor extends AsyncDisposable {
  /** One round over all backends; resolves with the number of sandboxes destroyed. */
  sweep(): Promise<number>
}

/** Makes the janitor and starts its first round. */
export function createJanitor(deps: {
  backends: ReadonlyMap<string, Backend>
  self: WorkerId
  liveWorkers(): Promise<ReadonlySet<string>>
  onSwept(backend: string, owner: WorkerId, destroyed: number): void
  onError(error: unknown): void
}): Janitor {
  let round: Promise<unknown> = sweep()
  const timer = setInterval(() => {
    round = sweep()
  }, INTERVAL_MS)
  timer.unref()

  async function sweep(): Promise<number> {
    let destroyed = 0
    try {
      const alive = await deps.liveWorkers()
      for (const backend of deps.backends.values()) destroyed += await sweepBackend(backend, alive)
    } catch (error) {
      deps.onError(error)
    }
    return destroyed
  }

  async function sweepBackend(backend: Backend, alive: ReadonlySet<string>): Promise<number> {
    let destroyed = 0
    try {
      if (!(await backend.probe(AbortSignal.timeout(10_000))).ok) return 0
      // Workers of another Redis on the same host beat where we cannot hear them (docs/decisions/0004).
      const ours = (await backend.owners()).filter((owner) => fleetOf(owner) === fleetOf(deps.self))
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
      await round
    },
  }
}
