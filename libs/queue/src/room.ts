/**
 * Whether this worker has memory for one more execution, besides a free slot. Without memory, executions stay
 * in the fair queue, with their order, position and ETA, instead of waiting inside the worker.
 */
import type { Lane } from './keys.ts'

export interface Room {
  /** False while a taken execution waits here for memory, or `lane` has used its share. */
  isFree(lane?: Lane): boolean
  /** True while less than half of the lane's memory is used, so that the lane could double what it runs. */
  isAmple(lane: Lane): boolean
  /** Calls `listener` whenever the answer of isFree or isAmple may have changed. */
  onChange(listener: () => void): void
}

export interface RoomGate {
  isFree(lane?: Lane): boolean
  isAmple(lane: Lane): boolean
  /** Resolves when the lane may take one more, or when the signal aborts. */
  free(signal: AbortSignal, lane?: Lane): Promise<void>
  /** Share of the time since the last call, 0 to 1, in which memory was short. */
  shortShare(): number
}

/** Creates the gate. Without `room` it is always open. `now` is a monotonic clock in milliseconds. */
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

/**
 * How many of its slots a worker can fill. When memory is the bottleneck, the worker reports only one slot
 * more than it really used. The scheduler then releases less to it, and the rest waits in fair order.
 */
export interface Fillable {
  /** Sets how many executions have begun here and not ended. */
  note(begun: number): void
  /** Figure for the next heartbeat: all slots, or one more than ran at once since the last heartbeat. */
  read(): number
}

/** Memory that is short for less than this share of a period is no bottleneck. */
const SHORT_SHARE = 0.5

export function createFillable(slots: number, room: RoomGate): Fillable {
  let begun = 0
  let most = 0
  return {
    note(count) {
      begun = count
      most = Math.max(most, count)
    },
    read() {
      const filled = Math.min(slots, most + 1)
      most = begun
      return room.shortShare() < SHORT_SHARE ? slots : filled
    },
  }
}
