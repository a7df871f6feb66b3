import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createLeftBehind } from './left-behind.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }))
afterEach(() => void vi.useRealTimers())

/** A sandbox at a vendor whose first calls fail. */
function vendor(failures = 0) {
  const seen = { calls: 0 }
  const end = async (): Promise<boolean> => {
    seen.calls += 1
    if (seen.calls <= failures) throw new Error('away')
    return seen.calls === failures + 1
  }
  return { seen, end }
}

test('repeats an end that was not confirmed, until the sandbox is gone', async () => {
  const left = createLeftBehind()
  const { seen, end } = vendor(2)
  await expect(left.end('a', end)).rejects.toThrow('away')
  for (const calls of [2, 3, 3]) {
    await left.endAll()
    expect(seen.calls).toBe(calls)
  }
})

test('ends a sandbox once if it is gone at once, and returns the answer', async () => {
  const left = createLeftBehind()
  const { seen, end } = vendor()
  expect(await left.end('a', end)).toBe(true)
  await left.endAll()
  expect(seen.calls).toBe(1)
})

test('repeats the end of a sandbox that may still appear, until it no longer can', async () => {
  const left = createLeftBehind()
  const { seen, end } = vendor()
  await left.end('a', end, { comesUntilMs: Date.now() + 1000 })
  // Another `end` without `comesUntilMs` does not shorten the repetition.
  await left.end('a', end)
  vi.setSystemTime(Date.now() + 1000)
  for (const calls of [3, 3]) {
    await left.endAll()
    expect(seen.calls).toBe(calls)
  }
})

test('forgets a sandbox that its vendor has ended by itself', async () => {
  const left = createLeftBehind()
  const { seen, end } = vendor(9)
  await expect(left.end('a', end, { endsAtMs: Date.now() + 1000 })).rejects.toThrow('away')
  await left.endAll()
  vi.setSystemTime(Date.now() + 1000)
  await left.endAll()
  expect(seen.calls).toBe(2)
})

test('remembers at most a thousand sandboxes', async () => {
  const left = createLeftBehind()
  const { seen, end } = vendor(Number.POSITIVE_INFINITY)
  await Promise.allSettled(Array.from({ length: 1001 }, (_, number) => left.end(String(number), end)))
  await left.endAll()
  expect(seen.calls).toBe(2001)
})
