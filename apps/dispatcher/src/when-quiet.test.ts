import { AsyncLocalStorage } from 'node:async_hooks'
import { afterEach, expect, it, vi } from 'vitest'
import { whenQuiet } from './when-quiet.ts'

afterEach(() => {
  vi.useRealTimers()
})

it('runs once after the last postponement, and not after its disposal', async () => {
  vi.useFakeTimers()
  const run = vi.fn(async () => undefined)
  const quiet = whenQuiet(100, run)
  quiet.postpone()
  await vi.advanceTimersByTimeAsync(60)
  quiet.postpone()
  await vi.advanceTimersByTimeAsync(60)
  expect(run).toHaveBeenCalledTimes(0)
  await vi.advanceTimersByTimeAsync(60)
  expect(run).toHaveBeenCalledTimes(1)
  quiet.postpone()
  quiet[Symbol.dispose]()
  await vi.advanceTimersByTimeAsync(200)
  expect(run).toHaveBeenCalledTimes(1)
})

it('runs in the context in which it was made, not in that of the call which postponed it', async () => {
  const context = new AsyncLocalStorage<string>()
  const seen: (string | undefined)[] = []
  using quiet = whenQuiet(1, async () => void seen.push(context.getStore()))
  for (const [n, call] of ['first', 'second'].entries()) {
    context.run(call, () => quiet.postpone())
    await vi.waitFor(() => expect(seen).toHaveLength(n + 1), 20_000)
  }
  expect(seen).toEqual([undefined, undefined])
})
