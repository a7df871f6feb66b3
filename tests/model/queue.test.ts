/**
 * Plays random schedules of everything that may happen to a fleet, over the real scripts. Checks that
 * docs/internals/state-machines.md holds.
 */
import { isLongTier } from '@cofferdam/embedded/needs'
import { scheduleSeed } from '@cofferdam/embedded/testing'
import fc from 'fast-check'
import { afterAll, beforeAll, it } from 'vitest'
import { play } from './play.ts'
import { scheduleArb, type Step } from './steps.ts'
import { openTransport } from './transport.ts'
import type { Transport } from './world.ts'

/** Number of schedules of about 60 steps each. */
const RUNS = Number(process.env['COFFERDAM_MODEL_RUNS'] ?? (isLongTier() ? 80 : 25))

const PUT: Step = {
  do: 'put',
  tenant: 0,
  agent: 0,
  lane: 'interactive',
  priority: 0,
  session: null,
  delayMs: 0,
  key: null,
  need: 0,
}
const FLOW: Step = { do: 'fetch', worker: 0, lane: 'interactive' }
const ON = { do: 'act', held: 0, choice: 'on', late: false, outbox: false } as const
const HEIR_ON = { ...ON, held: 1 }
const DIE: Step = { do: 'die', worker: 0 }

let transport: Transport & AsyncDisposable
beforeAll(async () => {
  transport = await openTransport()
})
afterAll(() => transport?.[Symbol.asyncDispose]())

/**
 * Schedules that once broke an invariant, shortened by hand. The next owner is the worker that takes an
 * attempt after its first owner lost it.
 *   1  the next owner gave back an attempt that had begun, and it was cancelled: its row was uncharged
 *   2  a stalled worker was admitted after the next owner, took over the charge, and gave it back
 *   3  a stalled worker was admitted after the next owner had ended the attempt uncharged: the charge stayed
 *   4  the same after the next owner had put the attempt back, and it was cancelled while it waited
 *   5  an owner recorded its attempt and died, the next owner put the attempt back, and it was cancelled
 */
const ONCE_BROKEN: Step[][] = [
  [
    PUT,
    FLOW,
    ON,
    ON,
    { do: 'die', worker: 0 },
    FLOW,
    { ...ON, held: 1, choice: 'back' },
    { do: 'cancel', execution: 0 },
  ],
  [
    PUT,
    FLOW,
    { do: 'stalled check', lane: 'interactive' },
    { do: 'lock expires', held: 0 },
    { do: 'stalled check', lane: 'interactive' },
    FLOW,
    { ...ON, held: 1 },
    ON,
    { ...ON, choice: 'back' },
    { ...ON, held: 1 },
  ],
  [PUT, FLOW, DIE, FLOW, HEIR_ON, { ...HEIR_ON, choice: 'fail' }, HEIR_ON, ON],
  [PUT, FLOW, DIE, FLOW, HEIR_ON, { ...HEIR_ON, choice: 'back' }, { do: 'cancel', execution: 0 }, ON],
  [
    PUT,
    FLOW,
    ON,
    { ...ON, choice: 'fail' },
    DIE,
    FLOW,
    { ...HEIR_ON, choice: 'back' },
    { do: 'cancel', execution: 0 },
  ],
]

it.each(ONCE_BROKEN.map((steps, n) => [n + 1, steps] as const))(
  'the queue keeps all invariants under schedule %i, which once broke one',
  (_n, steps) => play(transport, steps),
)

it('the queue keeps all invariants under random work, crashes, delays and clock changes', async () => {
  await fc.assert(
    fc.asyncProperty(scheduleArb, (steps) => play(transport, steps)),
    {
      numRuns: RUNS,
      seed: scheduleSeed(),
      // When the time is over, fast-check reports the shortest failing schedule that it has.
      interruptAfterTimeLimit: 150_000,
      markInterruptAsFailure: false,
    },
  )
})
