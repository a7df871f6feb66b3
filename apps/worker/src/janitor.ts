/**
 * Destroys sandboxes of dead workers. In each round a backend lists the owners of its sandboxes, and those
 * without heartbeats are swept. A sandbox outlives its owner at most by the heartbeat timeout plus JANITOR_MS
 * (promise 26 of SPECIFICATION.md).
 */
import { fleetOf, type Backend, type WorkerId } from '@cofferdam/contract'
import { repeat } from './periodic.ts'

/** Half of the promised minute. The other half covers the heartbeat timeout and the sweep itself. */
export const JANITOR_MS = 30_000

/** Starts the first round, and another one every `everyMs`. Disposing waits for rounds under way. */
export function createJanitor(deps: {
  backends: ReadonlyMap<string, Backend>
  self: WorkerId
  /** At most JANITOR_MS. */
  everyMs: number
  liveWorkers(): Promise<ReadonlySet<string>>
  onSwept(backend: string, owner: WorkerId, destroyed: number): void
  onError(this: void, error: unknown): void
}): AsyncDisposable {
  const { everyMs, onError } = deps
  // Each backend has its own rounds, so that a hanging backend delays no other.
  const rounds = [...deps.backends.values()].map((backend) =>
    repeat(() => sweepBackend(backend), { everyMs, onError }),
  )

  async function sweepBackend(backend: Backend): Promise<void> {
    if (!(await backend.probe(AbortSignal.timeout(10_000))).ok) return
    // Workers on another Redis of this host send us no heartbeats (docs/decisions/0004).
    const ours = (await backend.owners()).filter((owner) => fleetOf(owner) === fleetOf(deps.self))
    // Read after the owners, so that a worker that started in between counts as alive.
    const alive = await deps.liveWorkers()
    for (const owner of ours) {
      if (owner === deps.self || alive.has(owner)) continue
      const { destroyed } = await backend.sweep(owner)
      if (destroyed > 0) deps.onSwept(backend.name, owner, destroyed)
    }
  }

  return {
    async [Symbol.asyncDispose]() {
      await Promise.all(rounds.map((each) => each[Symbol.asyncDispose]()))
    },
  }
}
