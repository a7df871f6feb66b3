/**
 * Executions that the scheduler assigned to this worker because it has the sandbox of their session
 * (lua/include/session.lua). Only this worker takes them, without BullMQ, when it has a slot.
 *
 * Virtual time decides between them and the run queue (take-assigned.lua). While other work is ready, a lane
 * never runs two assigned executions in a row. An assigned execution waits for at most `OTHERS_IN_A_ROW`
 * others. So neither side can starve the other, however wrong the estimates are.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Lane } from './keys.ts'
import type { RoomGate } from './room.ts'
import type { Slots } from './slots.ts'
import type { AssignedAnswer, AssignedTurn } from './take.ts'

const OTHERS_IN_A_ROW = 8
/**
 * If other work was due first, ask again after this pause: another worker may take that work without telling
 * this one.
 */
const LATER_MS = 20
/** Pause after a failed call (Redis is away). */
const FAILED_MS = 100

export interface AssignedQueue {
  /** True while assigned executions may be waiting. A slot that becomes free is then offered to them too. */
  waits(lane: Lane): boolean
  /** Tells `serve` that an execution was assigned, or may have been. */
  wake(lane: Lane): void
  /** Notes that an execution of the run queue got a slot. The lane may then run an assigned one again. */
  noteOther(lane: Lane): void
  /** Takes assigned executions while there are slots, until the signal aborts. */
  serve(lane: Lane, signal: AbortSignal): Promise<void>
}

interface AssignedDeps {
  slots: Slots
  room: RoomGate
  take: (lane: Lane, turn: AssignedTurn) => Promise<AssignedAnswer>
  /** Runs the execution to its end, and holds the slot meanwhile. Never rejects. */
  carry: (answer: Extract<AssignedAnswer, { code: 'taken' }>) => Promise<void>
  onError: (error: unknown) => void
}

interface LaneTurns {
  mayWait: boolean
  /** Redis has to be asked again. */
  isDue: boolean
  changed: PromiseWithResolvers<void>
  lastWasAssigned: boolean
  others: number
}

export function createAssignedQueue({ slots, room, take, carry, onError }: AssignedDeps): AssignedQueue {
  const fresh = (): LaneTurns => ({
    mayWait: false,
    isDue: false,
    changed: Promise.withResolvers(),
    lastWasAssigned: false,
    others: 0,
  })
  const turns: Record<Lane, LaneTurns> = { interactive: fresh(), routine: fresh() }

  const poke = (turn: LaneTurns): void => {
    turn.isDue = true
    const { resolve } = turn.changed
    turn.changed = Promise.withResolvers()
    resolve()
  }

  const turnOf = ({ lastWasAssigned, others }: LaneTurns): AssignedTurn =>
    lastWasAssigned ? 'yield' : others >= OTHERS_IN_A_ROW ? 'force' : 'fair'

  type Taken = Extract<AssignedAnswer, { code: 'taken' }>

  /** Takes an assigned execution for an acquired slot. Returns null when none is due now. */
  async function next(lane: Lane): Promise<Taken | null> {
    const turn = turns[lane]
    turn.isDue = false
    const answer = await take(lane, turnOf(turn))
    if (answer.code === 'taken') {
      turn.lastWasAssigned = true
      turn.others = 0
      if (answer.left > 0) poke(turn)
    }
    // `isDue` is set again if an execution was assigned while the answer was in flight.
    if (answer.code !== 'later') turn.mayWait = turn.isDue
    else void pause(LATER_MS).then(() => poke(turn))
    return answer.code === 'taken' ? answer : null
  }

  async function carryAll(lane: Lane, first: Taken): Promise<void> {
    try {
      for (let held: Taken | null = first; held !== null;) {
        await carry(held)
        held = turns[lane].isDue && room.isFree(lane) ? await next(lane) : null
      }
    } catch (error) {
      onError(error)
    } finally {
      slots.release(lane)
      if (turns[lane].mayWait) poke(turns[lane])
    }
  }

  return {
    waits: (lane) => turns[lane].mayWait,
    wake(lane) {
      turns[lane].mayWait = true
      poke(turns[lane])
    },
    noteOther(lane) {
      const turn = turns[lane]
      turn.lastWasAssigned = false
      turn.others += 1
      if (turn.mayWait) poke(turn)
    },
    async serve(lane, signal) {
      const turn = turns[lane]
      signal.addEventListener('abort', () => poke(turn), { once: true })
      while (!signal.aborted) {
        if (!turn.isDue) await turn.changed.promise
        await slots.free(lane, signal)
        await room.free(signal, lane)
        if (signal.aborted) return
        // Another slot of this worker may have taken the execution meanwhile.
        if (!turn.isDue || !slots.tryAcquire(lane)) continue
        try {
          const held = await next(lane)
          if (held === null) slots.release(lane)
          else void carryAll(lane, held)
        } catch (error) {
          slots.release(lane)
          onError(error)
          await pause(FAILED_MS)
          poke(turn)
        }
      }
    },
  }
}
