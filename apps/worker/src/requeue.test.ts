import { expect, it } from 'vitest'
import { createReturnTimes } from './requeue.ts'

it('brings back executions that wait for a full backend in order, within 1 to 30 seconds', () => {
  const returnAtMs = createReturnTimes()
  expect([returnAtMs(10_000), returnAtMs(10_000), returnAtMs(10_020)]).toEqual([11_000, 11_050, 11_100])
  expect(returnAtMs(20_000)).toBe(21_000)
  const many = Array.from({ length: 1000 }, () => returnAtMs(20_000))
  expect(many).toEqual(many.toSorted((a, b) => a - b))
  expect(many.at(-1)).toBe(50_000)
})
