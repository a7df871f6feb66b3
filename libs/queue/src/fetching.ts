/**
 * Fills the slots of a worker from the run queue of one lane. When a job arrives, the loop takes one, then
 * twice as many at each step while slots, memory and jobs last. A slot is held from before the take to the
 * end of the last execution that runs on it.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { AssignedQueue } from './assigned.ts'
import type { LaneSource, TakenJob } from './lane-source.ts'
import type { RoomGate } from './room.ts'
import type { Slots } from './slots.ts'

/** Executions that one slot runs in a row on a lane before the other lane may have it. */
const STREAK = 16
/** Most takes at once. They are gathered into one script call, and each costs about 40 us of it. */
const TAKES_MAX = 32
/** Pause after a failed call (Redis is away). */
const FAILED_MS = 100

export interface FetchingDeps {
  slots: Slots
  room: RoomGate
  assigned: AssignedQueue
  /** True when this worker also serves the other lane. */
  sharesSlots: boolean
  /** Runs one job to the end of `process`. Calls `onProcess` once `process` has it. Never rejects. */
  carry: (taken: TakenJob, onProcess: () => void) => Promise<void>
  /** Makes a drain wait for this work. */
  tracked: (carrying: Promise<unknown>) => Promise<unknown>
  onError: (error: unknown) => void
}

/** Takes and runs executions until the signal aborts. */
export async function fetchLoop(source: LaneSource, deps: FetchingDeps, signal: AbortSignal): Promise<void> {
  const { slots, room } = deps
  while (!signal.aborted) {
    await slots.free(source.lane, signal)
    await room.free(signal, source.lane)
    if (signal.aborted) return
    try {
      await source.wait()
      await fill(source, deps, signal)
    } catch (error) {
      if (signal.aborted) return
      deps.onError(error)
      await pause(FAILED_MS)
    }
  }
}

async function fill(source: LaneSource, deps: FetchingDeps, signal: AbortSignal): Promise<void> {
  for (let wanted = 1; ; wanted = Math.min(2 * wanted, TAKES_MAX)) {
    const held = signal.aborted ? 0 : acquire(source, wanted, deps)
    if (held === 0) {
      // The last slot went to the other lane or to an assigned execution, or memory ran out. So wake another
      // worker for the job. After a take the script has already done this.
      if (wanted === 1) await source.wakeAnother()
      return
    }
    let failed = false
    const takes = Array.from({ length: held }, async () => {
      const taken = await source.take().catch((error: unknown) => {
        failed = true
        deps.onError(error)
        return null
      })
      if (taken === null) {
        deps.slots.release(source.lane)
        return null
      }
      // Resolves when the memory budget counts this execution.
      const counted = Promise.withResolvers<void>()
      void deps.tracked(carryAll(source, taken, { deps, signal, onProcess: counted.resolve }))
      await counted.promise
      return taken
    })
    for (const take of takes) void deps.tracked(take)
    const taken = await Promise.all(takes)
    if (failed) await pause(FAILED_MS)
    if (taken.includes(null)) return
  }
}

/**
 * Acquires up to `wanted` slots, but at most one when memory is short. So a batch of executions of equal size
 * exceeds the memory budget by at most one of them.
 */
function acquire({ lane }: LaneSource, wanted: number, { slots, room }: FetchingDeps): number {
  if (!room.isFree(lane)) return 0
  const most = room.isAmple(lane) ? wanted : 1
  let held = 0
  while (held < most && slots.tryAcquire(lane)) held += 1
  return held
}

/** Runs the job, then further jobs of the lane, on one acquired slot. Calls `onProcess` at least once. */
async function carryAll(
  source: LaneSource,
  first: TakenJob,
  { deps, signal, onProcess }: { deps: FetchingDeps; signal: AbortSignal; onProcess: () => void },
): Promise<void> {
  const { slots, room, assigned, sharesSlots, carry } = deps
  let next: TakenJob | null = first
  try {
    for (let turn = 1; next !== null; turn += 1) {
      const taken: TakenJob = next
      assigned.noteOther(source.lane)
      await carry(taken, onProcess)
      const goesOn: boolean =
        (turn < STREAK || !sharesSlots) &&
        !assigned.waits(source.lane) &&
        room.isFree(source.lane) &&
        !signal.aborted
      next = await source.finish(taken.job, goesOn)
    }
  } finally {
    slots.release(source.lane)
    onProcess()
  }
}
