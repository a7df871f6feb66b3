/**
 * The slots of one worker, shared by its lanes. When the worker serves both lanes, routines get at most half
 * of the slots, or what the operator sets, so that long background runs cannot fill it.
 */
import type { Lane } from './keys.ts'

export interface Slots {
  readonly busy: number
  /** Most slots that a lane may use if the worker has `of` slots (default: `total`). */
  max(lane: Lane, of?: number): number
  /** Resolves when the lane could acquire a slot, or when the signal aborts. Acquires none. */
  free(lane: Lane, signal: AbortSignal): Promise<void>
  /** Acquires a slot. Returns false when the lane has none free. */
  tryAcquire(lane: Lane): boolean
  release(lane: Lane): void
}

/**
 * Creates `total` slots for `lanes`. With both lanes, routine may use at least one slot, but never all of
 * them if there are two or more.
 */
export function createSlots(
  total: number,
  lanes: readonly Lane[],
  routine: number = Math.floor(total / 2),
): Slots {
  const share = (lane: Lane, of: number): number => {
    if (!lanes.includes(lane) || of === 0) return 0
    return lane === 'interactive' || lanes.length === 1
      ? of
      : Math.max(1, Math.min(Math.floor((of * routine) / total), of - 1))
  }
  const limits: Record<Lane, number> = {
    interactive: share('interactive', total),
    routine: share('routine', total),
  }
  const used: Record<Lane, number> = { interactive: 0, routine: 0 }
  let changed = Promise.withResolvers<void>()

  const hasRoom = (lane: Lane): boolean =>
    used.interactive + used.routine < total && used[lane] < limits[lane]

  return {
    get busy() {
      return used.interactive + used.routine
    },
    max: (lane, of = total) => share(lane, of),
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
    tryAcquire(lane) {
      if (!hasRoom(lane)) return false
      used[lane] += 1
      return true
    },
    release(lane) {
      used[lane] -= 1
      const { resolve } = changed
      changed = Promise.withResolvers()
      resolve()
    },
  }
}
