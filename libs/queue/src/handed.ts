/**
 * The hand of this worker: executions whose session has its sandbox here. The scheduler puts them there
 * (lua/include/session.lua); only this worker takes them, without BullMQ, when it has a slot.
 *
 * Between them and the run queue turns are taken: virtual time decides (take-handed.lua); beyond it, none comes from
 * the hand twice in a row while other work is ready, and the hand is served at the latest after `OTHERS_IN_A_ROW`
 * others. So neither can starve the other, whatever the estimates are worth.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Lane } from './keys.ts'
import type { RoomGate } from './room.ts'
import type { Slots } from './slots.ts'
import type { HandedAnswer, HandedTurn } from './take.ts'

const OTHERS_IN_A_ROW = 8
/** Other work was due first, and another worker may take it without a word to us: ask again after this. */
const LATER_MS = 20
/** After a failed call (Redis is away). */
const FAILED_MS = 100

export interface Handed {
  /** True while something may be in the hand: a slot that frees is then offered to it too. */
  waits(lane: Lane): boolean
  /** Something was put into the hand, or may have been. */
  wake(lane: Lane): void
  /** An execution of the run queue got a slot. */
  noteOther(lane: Lane): void
  /** Takes from the hand while there are slots, until the signal aborts. */
  serve(lane: Lane, signal: AbortSignal): Promise<void>
}

interface HandedDeps {
  slots: Slots
  room: RoomGate
  take: (lane: Lane, turn: HandedTurn) => Promise<HandedAnswer>
  /** Carries it to its end; the slot is held meanwhile. Never rejects. */
  carry: (answer: Extract<HandedAnswer, { code: 'taken' }>) => Promise<void>
  onError: (error: unknown) => void
}

interface LaneTurns {
  mayHold: boolean
  /** Ask the hand again. */
  isDue: boolean
  changed: PromiseWithResolvers<void>
  lastWasHanded: boolean
  others: number
}

export function createHanded({ slots, room, take, carry, onError }: HandedDeps): Handed {
  const fresh = (): LaneTurns => ({
    mayHold: false,
    isDue: false,
    changed: Promise.withResolvers(),
    lastWasHanded: false,
    others: 0,
  })
  const turns: Record<Lane, LaneTurns> = { interactive: fresh(), routine: fresh() }

  const poke = (turn: LaneTurns): void => {
    turn.isDue = true
    const { resolve } = turn.changed
    turn.changed = Promise.withResolvers()
    resolve()
  }

  const turnOf = ({ lastWasHanded, others }: LaneTurns): HandedTurn =>
    lastWasHanded ? 'yield' : others >= OTHERS_IN_A_ROW ? 'force' : 'fair'

  type Taken = Extract<HandedAnswer, { code: 'taken' }>

  /** Takes one for a slot that is held already; null when there is none for now. */
  async function next(lane: Lane): Promise<Taken | null> {
    const turn = turns[lane]
    turn.isDue = false
    const answer = await take(lane, turnOf(turn))
    if (answer.code === 'taken') {
      turn.lastWasHanded = true
      turn.others = 0
      poke(turn)
      return answer
    }
    // Unless something was put in while the answer travelled.
    if (answer.code === 'none') turn.mayHold = turn.isDue
    else void pause(LATER_MS).then(() => poke(turn))
    return null
  }

  async function carryAll(lane: Lane, first: Taken): Promise<void> {
    try {
      for (let held: Taken | null = first; held !== null;) {
        await carry(held)
        // Right after the end of one, the next of its session is in the hand.
        held = room.isFree(lane) ? await next(lane) : null
      }
    } catch (error) {
      onError(error)
    } finally {
      slots.release(lane)
      if (turns[lane].mayHold) poke(turns[lane])
    }
  }

  return {
    waits: (lane) => turns[lane].mayHold,
    wake(lane) {
      turns[lane].mayHold = true
      poke(turns[lane])
    },
    noteOther(lane) {
      const turn = turns[lane]
      turn.lastWasHanded = false
      turn.others += 1
      if (turn.mayHold) poke(turn)
    },
    async serve(lane, signal) {
      const turn = turns[lane]
      signal.addEventListener('abort', () => poke(turn), { once: true })
      while (!signal.aborted) {
        if (!turn.isDue) await turn.changed.promise
        await slots.free(lane, signal)
        await room.free(signal, lane)
        if (signal.aborted) return
        if (!slots.tryAcquire(lane)) continue
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
