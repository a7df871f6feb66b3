/**
 * The scripts for tests that call them one by one, in orders that no worker would choose (tests/model). Only
 * the clock differs: the scripts read it from a key that the test sets. So a test can let hours pass at once,
 * or turn the clock back.
 */
import { cellOfNumber } from './cell.ts'
import { scriptOf, SCRIPTS, type Script } from './scripts.ts'

/** Keys and channels of cell 0, in which tests run unless they name another. */
export const { keys: KEYS, channels: CHANNELS, tag: TAG } = cellOfNumber(0)

export { jobIdOf, releaseOf } from './keys.ts'
export { list, numberOrNull, runCoded, run, text, type Reply, type Script } from './scripts.ts'

/** Milliseconds; set it before the first script runs. */
export const TEST_CLOCK = `${TAG}:test-clock`

const CLOCK = /local function now_ms\(\)\n[\s\S]*?\nend\n/

function underTestClock({ name, textFor, isGathered }: Script): Script {
  const body = `local function now_ms()\n  return tonumber(redis.call('GET', '${TEST_CLOCK}'))\nend\n`
  return scriptOf(name, isGathered, (cell) => {
    const timed = textFor(cell).source.replace(CLOCK, body)
    if (/redis\.call\('TIME'\)/.test(timed)) throw new Error(`script ${name} reads the time past clock.lua`)
    return timed
  })
}

/** Every script of the queue under the clock of the test. */
export const SCRIPTS_UNDER_TEST_CLOCK = Object.fromEntries(
  Object.entries(SCRIPTS).map(([name, script]) => [name, underTestClock(script)]),
) as Record<keyof typeof SCRIPTS, Script>
