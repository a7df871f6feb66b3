/**
 * How many of its slots a worker can fill. Where memory, not slots, is the bottleneck, the window of the scheduler and
 * the ETAs follow what really ran at once, so that the rest waits in fair order and not released.
 */
import type { RoomGate } from './room.ts'

export interface Fillable {
  /** Tells how many executions have begun here and not ended. */
  note(begun: number): void
  /** The figure for the next heartbeat: all slots, or the most that ran at once since the last one, and one that waits. */
  read(): number
}

/** Room short for less than this share of a period is a hiccup (warm slots letting go), not a bottleneck. */
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
