import { expect, it } from 'vitest'
import { clock, dayAndClock, zoneName } from './moments.ts'

const AT_MS = Date.UTC(2026, 11, 31, 23, 45)

it.each([
  [0, '23:45', '2026-12-31 23:45', 'UTC'],
  [60, '00:45', '2027-01-01 00:45', 'UTC+1'],
  [-210, '20:15', '2026-12-31 20:15', 'UTC−3:30'],
  [345, '05:30', '2027-01-01 05:30', 'UTC+5:45'],
])('writes a moment on a clock %d minutes from UTC', (offset, time, day, name) => {
  expect(clock(AT_MS, offset)).toBe(time)
  expect(dayAndClock(AT_MS, offset)).toBe(day)
  expect(zoneName(offset)).toBe(name)
})
