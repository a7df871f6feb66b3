/**
 * Limits how many sandboxes of a worker start at once, over all pools. More than one per core makes each
 * start longer (847 instead of 137 ms with eight). On two cores or fewer, only one starts while programs run,
 * because starts raise the programs' p99 from 3 to 20 ms.
 */
export interface RefillGate {
  /** Runs `work` when its turn comes, in order, and returns its result. */
  enter<T>(work: () => Promise<T>): Promise<T>
  /** Counts an execution in; the returned function counts it out, once. */
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
