/**
 * The slots of one worker, shared by its lanes. The routine lane gets at most half of them when the worker serves
 * both, so that long background runs cannot fill it.
 */
import type { Lane } from './keys.ts'

export interface Slots {
  readonly busy: number
  /** Slots that a lane may use at most. */
  max(lane: Lane): number
  /** Resolves when a slot is free for the lane (it is not taken yet), or when the signal aborts. */
  free(lane: Lane, signal: AbortSignal): Promise<void>
  /** Takes a slot; waits for one. */
  acquire(lane: Lane): Promise<void>
  release(lane: Lane): void
}

/** `total` slots for `lanes`; routine's share is at least one. */
export function createSlots(total: number, lanes: readonly Lane[]): Slots {
  const limits: Record<Lane, number> = {
    interactive: lanes.includes('interactive') ? total : 0,
    routine: lanes.includes('routine') ? (lanes.length > 1 ? Math.max(1, Math.floor(total / 2)) : total) : 0,
  }
  const used: Record<Lane, number> = { interactive: 0, routine: 0 }
  let changed = Promise.withResolvers<void>()

  const hasRoom = (lane: Lane): boolean =>
    used.interactive + used.routine < total && used[lane] < limits[lane]

  return {
    get busy() {
      return used.interactive + used.routine
    },
    max: (lane) => limits[lane],
    async free(lane, signal) {
      if (signal.aborted || hasRoom(lane)) return
      const aborted = Promise.withResolvers<void>()
      const onAbort = (): void => aborted.resolve()
      signal.addEventListener('abort', onAbort)
      try {
        while (!signal.aborted && !hasRoom(lane)) await Promise.race([changed.promise, aborted.promise])
      } finally {
        signal.removeEventListener('abort', onAbort)
      }
    },
    async acquire(lane) {
      while (!hasRoom(lane)) await changed.promise
      used[lane] += 1
    },
    release(lane) {
      used[lane] -= 1
      const { resolve } = changed
      changed = Promise.withResolvers()
      resolve()
    },
  }
}
