/**
 * Fills the slots of a worker from the run queue of one lane.
 *
 *   nothing there ──woken──▶ one is taken, then as many again as came, while there are slots, room and jobs ──▶ nothing there
 *
 * A slot is held from before the take to the end of the last execution that it went on to.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Handed } from './handed.ts'
import type { LaneSource, TakenJob } from './lane-source.ts'
import type { RoomGate } from './room.ts'
import type { Slots } from './slots.ts'

/** Executions that one slot runs in a row on a lane before it is offered to the other lane. */
const STREAK = 16
/** Taken by one call at most: the script takes some 40 us for each. */
const TAKES_MAX = 32
/** After a failed call (Redis is away). */
const FAILED_MS = 100

export interface FetchingDeps {
  slots: Slots
  room: RoomGate
  handed: Handed
  /** The other lane is served here, too. */
  sharesSlots: boolean
  /** Runs one job to the end of `process`, which has it when `onProcess` is called. Never rejects. */
  carry: (taken: TakenJob, onProcess: () => void) => Promise<void>
  /** Lets a drain wait for what was taken. */
  tracked: (carrying: Promise<unknown>) => Promise<unknown>
  onError: (error: unknown) => void
}

/** Takes and carries until the signal aborts. */
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
      // Meanwhile the other lane or the hand may have got the last slot, or memory ran out: another worker may have room. After a
      // take there is a mark for it already.
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
      // Only then does the room tell what is left of it.
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
 * Slots that are held now, for `wanted` at most: one more than were just taken. Of equal size those then fit into what is left of an
 * ample room but for the last, as if each had been asked for by itself.
 */
function acquire({ lane }: LaneSource, wanted: number, { slots, room }: FetchingDeps): number {
  if (!room.isFree(lane)) return 0
  const most = room.isAmple(lane) ? wanted : 1
  let held = 0
  while (held < most && slots.tryAcquire(lane)) held += 1
  return held
}

/** Runs the job and then the lane's next ones on a slot that was acquired for it. `onProcess` is called again and again, once at least. */
async function carryAll(
  source: LaneSource,
  first: TakenJob,
  { deps, signal, onProcess }: { deps: FetchingDeps; signal: AbortSignal; onProcess: () => void },
): Promise<void> {
  const { slots, room, handed, sharesSlots, carry } = deps
  let next: TakenJob | null = first
  try {
    for (let turn = 1; next !== null; turn += 1) {
      const taken: TakenJob = next
      handed.noteOther(source.lane)
      await carry(taken, onProcess)
      const goesOn: boolean =
        (turn < STREAK || !sharesSlots) &&
        !handed.waits(source.lane) &&
        room.isFree(source.lane) &&
        !signal.aborted
      next = await source.finish(taken.job, goesOn)
    }
  } finally {
    slots.release(source.lane)
    onProcess()
  }
}
