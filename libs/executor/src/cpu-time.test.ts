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

it('stops a program that computes within two checks of its limit', async () => {
  const clock = createManualClock()
  using watch = watchCpuTime(sandboxUsing(1, clock), { limitMs: 500, parallel: 1, clock })
  await clock.advance(495)
  expect(watch.passed.aborted).toBe(false)
  await clock.advance(45)
  expect(watch.passed.aborted).toBe(true)
})

it('asks a sleeping program only when the limit could be reached', async () => {
  const clock = createManualClock()
  const sandbox = sandboxUsing(0, clock)
  using watch = watchCpuTime(sandbox, { limitMs: 1000, parallel: 2, clock })
  await clock.advance(10_000)
  expect(watch.passed.aborted).toBe(false)
  expect(sandbox.asked).toBe(20)
})

it('counts several cores at once', async () => {
  const clock = createManualClock()
  using watch = watchCpuTime(sandboxUsing(2, clock), { limitMs: 1000, parallel: 2, clock })
  await clock.advance(560)
  expect(watch.passed.aborted).toBe(true)
})

it('asks nothing without a limit, and nothing after the run', async () => {
  const clock = createManualClock()
  const sandbox = sandboxUsing(1, clock)
  watchCpuTime(sandbox, { limitMs: undefined, parallel: 1, clock })
  const watch = watchCpuTime(sandbox, { limitMs: 100, parallel: 1, clock })
  watch[Symbol.dispose]()
  await clock.advance(10_000)
  expect(sandbox.asked).toBe(0)
  expect(clock.pending).toBe(0)
})

it('takes a sandbox that does not answer for one that is ending', async () => {
  const clock = createManualClock()
  using watch = watchCpuTime(
    { usage: () => Promise.reject(new Error('gone')) },
    { limitMs: 100, parallel: 1, clock },
  )
  await clock.advance(1000)
  expect(watch.passed.aborted).toBe(false)
})
