import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createLeftBehind } from './left-behind.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }))
afterEach(() => void vi.useRealTimers())

/** Something at a vendor that is away for so many calls. */
function vendor(failures = 0) {
  const seen = { calls: 0 }
  const end = async (): Promise<boolean> => {
    seen.calls += 1
    if (seen.calls <= failures) throw new Error('away')
    return seen.calls === failures + 1
  }
  return { seen, end }
}

test('what was not ended is asked for again until it is gone, and not after', async () => {
  const left = createLeftBehind()
  const { seen, end } = vendor(2)
  await expect(left.end('a', end)).rejects.toThrow('away')
  for (const calls of [2, 3, 3]) {
    await left.endAll()
    expect(seen.calls).toBe(calls)
  }
})

test('what is gone at once is asked for once; its end is told as it was', async () => {
  const left = createLeftBehind()
  const { seen, end } = vendor()
  expect(await left.end('a', end)).toBe(true)
  await left.endAll()
  expect(seen.calls).toBe(1)
})

test('what may come later is looked for until it cannot, and has to be gone then', async () => {
  const left = createLeftBehind()
  const { seen, end } = vendor()
  await left.end('a', end, { comesUntilMs: Date.now() + 1000 })
  // An end that knows nothing of that does not take it back.
  await left.end('a', end)
  vi.setSystemTime(Date.now() + 1000)
  for (const calls of [3, 3]) {
    await left.endAll()
    expect(seen.calls).toBe(calls)
  }
})

test('what its vendor has ended by itself is not asked for any more', async () => {
  const left = createLeftBehind()
  const { seen, end } = vendor(9)
  await expect(left.end('a', end, { endsAtMs: Date.now() + 1000 })).rejects.toThrow('away')
  await left.endAll()
  vi.setSystemTime(Date.now() + 1000)
  await left.endAll()
  expect(seen.calls).toBe(2)
})

test('no more than a thousand are remembered', async () => {
  const left = createLeftBehind()
  const { seen, end } = vendor(Number.POSITIVE_INFINITY)
  await Promise.allSettled(Array.from({ length: 1001 }, (_, number) => left.end(String(number), end)))
  await left.endAll()
  expect(seen.calls).toBe(2001)
})
