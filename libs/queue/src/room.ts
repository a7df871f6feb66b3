/**
 * Whether this worker has room for one more execution beyond a free slot (memory). While it has none, executions stay
 * in the fair queue, where their order, position and ETA are kept, instead of waiting inside the worker.
 */
import type { Lane } from './keys.ts'

export interface Room {
  /** False while an execution that was taken here waits for its share, or `lane` has had its own. */
  isFree(lane?: Lane): boolean
  /** True while less than half of the lane's room is taken: as many as are here would have room, too. */
  isAmple(lane: Lane): boolean
  /** Calls `listener` whenever the answer changed. */
  onChange(listener: () => void): void
}

export interface RoomGate {
  isFree(lane?: Lane): boolean
  isAmple(lane: Lane): boolean
  /** Resolves when there is room for the lane, or when the signal aborts. */
  free(signal: AbortSignal, lane?: Lane): Promise<void>
  /** Share of the time since the last call, 0 to 1, in which there was none. */
  shortShare(): number
}

/** Creates the gate; without `room` it is always open. `now` is a monotonic clock, milliseconds. */
export function createRoomGate(room?: Room, now: () => number = () => performance.now()): RoomGate {
  let changed = Promise.withResolvers<void>()
  let sinceMs = now()
  let shortSinceMs: number | null = null
  let shortMs = 0

  const note = (): void => {
    const atMs = now()
    if (shortSinceMs !== null) shortMs += atMs - shortSinceMs
    shortSinceMs = room?.isFree() === false ? atMs : null
    const { resolve } = changed
    changed = Promise.withResolvers()
    resolve()
  }
  room?.onChange(note)

  return {
    isFree: (lane) => room?.isFree(lane) ?? true,
    isAmple: (lane) => room?.isAmple(lane) ?? true,
    async free(signal, lane) {
      if (room === undefined || room.isFree(lane) || signal.aborted) return
      const aborted = Promise.withResolvers<void>()
      const onAbort = (): void => aborted.resolve()
      signal.addEventListener('abort', onAbort)
      try {
        while (!signal.aborted && !room.isFree(lane)) await Promise.race([changed.promise, aborted.promise])
      } finally {
        signal.removeEventListener('abort', onAbort)
      }
    },
    shortShare() {
      note()
      const spanMs = Math.max(1, now() - sinceMs)
      const share = Math.min(1, shortMs / spanMs)
      sinceMs = now()
      shortMs = 0
      return share
    },
  }
}
