import { unmeasuredUsage, type Usage } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { createManualClock } from '../test/manual-clock.ts'
import { watchCpuTime } from './cpu-time.ts'

/** A sandbox that uses `share` of one CPU from now on. */
function sandboxUsing(share: number, clock: { nowMs(): number }) {
  const startedMs = clock.nowMs()
  const sandbox = {
    asked: 0,
    async usage(): Promise<Usage> {
      sandbox.asked += 1
      return { ...unmeasuredUsage(0), cpu_ms: (clock.nowMs() - startedMs) * share }
    },
  }
  return sandbox
}

it('a program that computes is stopped within two checks of its limit', async () => {
  const clock = createManualClock()
  using watch = watchCpuTime(sandboxUsing(1, clock), { limitMs: 500, parallel: 1, clock })
  await clock.advance(495)
  expect(watch.passed.aborted).toBe(false)
  await clock.advance(45)
  expect(watch.passed.aborted).toBe(true)
})

it('a sleeping program is checked only when it could have reached its limit', async () => {
  const clock = createManualClock()
  const sandbox = sandboxUsing(0, clock)
  using watch = watchCpuTime(sandbox, { limitMs: 1000, parallel: 2, clock })
  await clock.advance(10_000)
  expect(watch.passed.aborted).toBe(false)
  expect(sandbox.asked).toBe(20)
})

it('the time of several cores is added up', async () => {
  const clock = createManualClock()
  using watch = watchCpuTime(sandboxUsing(2, clock), { limitMs: 1000, parallel: 2, clock })
  await clock.advance(560)
  expect(watch.passed.aborted).toBe(true)
})

it('nothing is read without a limit, or after the run', async () => {
  const clock = createManualClock()
  const sandbox = sandboxUsing(1, clock)
  watchCpuTime(sandbox, { limitMs: undefined, parallel: 1, clock })
  const watch = watchCpuTime(sandbox, { limitMs: 100, parallel: 1, clock })
  watch[Symbol.dispose]()
  await clock.advance(10_000)
  expect(sandbox.asked).toBe(0)
  expect(clock.pending).toBe(0)
})

it('a read that fails is repeated after a second, however large the limit', async () => {
  const clock = createManualClock()
  const sandbox = sandboxUsing(1, clock)
  let fails = true
  const usage = async (): Promise<Usage> => {
    if (!fails) return await sandbox.usage()
    fails = false
    throw new Error('busy')
  }
  using watch = watchCpuTime({ usage }, { limitMs: 60_000, parallel: 1, clock })
  await clock.advance(61_100)
  expect(watch.passed.aborted).toBe(true)
})

it('a sandbox that does not answer counts as ending', async () => {
  const clock = createManualClock()
  using watch = watchCpuTime(
    { usage: () => Promise.reject(new Error('gone')) },
    { limitMs: 100, parallel: 1, clock },
  )
  await clock.advance(1000)
  expect(watch.passed.aborted).toBe(false)
})
