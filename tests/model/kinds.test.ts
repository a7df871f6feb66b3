/**
 * Plays random orders of a fleet whose workers differ: kinds join, drain, leave, die and fall silent, while
 * tenants with weights and limits send executions that only some kinds can run.
 */
import { isLongTier } from '@cofferdam/embedded/needs'
import { scheduleSeed } from '@cofferdam/embedded/testing'
import fc from 'fast-check'
import { afterAll, beforeAll, it } from 'vitest'
import { play } from './play.ts'
import { mixedFleetArb } from './steps.ts'
import { openTransport } from './transport.ts'
import type { Transport } from './world.ts'

/** Number of schedules of about 40 steps each. */
const RUNS = Number(process.env['COFFERDAM_MODEL_RUNS'] ?? (isLongTier() ? 2000 : 6))
/** A schedule takes about a tenth of a second. */
const LIMIT_MS = isLongTier() ? 1_700_000 : 150_000

let transport: Transport & AsyncDisposable
beforeAll(async () => {
  transport = await openTransport()
})
afterAll(() => transport?.[Symbol.asyncDispose]())

it(
  'gives each execution to a kind that can run it, and leaves no slot idle, in any order',
  async () => {
    await fc.assert(
      fc.asyncProperty(mixedFleetArb, (steps) => play(transport, steps)),
      {
        numRuns: RUNS,
        seed: scheduleSeed(),
        // When the time is over, fast-check reports the shortest failing schedule that it has.
        interruptAfterTimeLimit: LIMIT_MS,
        markInterruptAsFailure: isLongTier(),
      },
    )
  },
  LIMIT_MS + 100_000,
)
