/**
 * How many sandboxes are warmed at once, over all pools of a worker. Beyond one per core nothing gets faster, each only
 * takes longer (137 to 847 ms at eight, local-isolation.md §2); on two cores or fewer one at a time while programs
 * run, because refill is what stretches their p99 from 3 to 20 ms (§4).
 */
export interface RefillGate {
  /** Runs `work` when its turn comes, in order. The result is the work's own. */
  enter<T>(work: () => Promise<T>): Promise<T>
  /** Counts an execution in; the returned call counts it out, once. */
  executing(): () => void
}

/** Creates the gate of a worker on a host with `cores`. */
export function createRefillGate(cores: number): RefillGate {
  let warming = 0
  let executions = 0
  const queue: (() => void)[] = []

  const limit = (): number => (cores <= 2 && executions > 0 ? 1 : Math.max(1, cores))
  const admit = (): void => {
    while (warming < limit()) {
      const next = queue.shift()
      if (next === undefined) return
      warming += 1
      next()
    }
  }

  return {
    async enter(work) {
      const turn = Promise.withResolvers<void>()
      queue.push(turn.resolve)
      admit()
      await turn.promise
      try {
        return await work()
      } finally {
        warming -= 1
        admit()
      }
    },
    executing() {
      executions += 1
      let counted = true
      return () => {
        if (!counted) return
        counted = false
        executions -= 1
        admit()
      }
    },
  }
}
