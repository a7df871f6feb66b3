import { expect, it } from 'vitest'
import { scheduleWords } from './schedule-words.ts'

it.each([
  ['30 2 * * *', 'every day at 02:30, UTC'],
  ['5 * * * *', 'every hour at minute 5, UTC'],
  ['* * * * *', 'every minute, UTC'],
  ['*/10 * * * *', 'every 10 minutes, UTC'],
  ['*/10 3 * * *', '*/10 3 * * *, UTC'],
  ['0 30 2 * * *', '0 30 2 * * *, UTC'],
  ['30 2 * * 1', '30 2 * * 1, UTC'],
  ['@daily', '@daily, UTC'],
])('writes %s as %s', (cron, words) => {
  expect(scheduleWords({ cron, time_zone: 'UTC' })).toBe(words)
})

it('writes intervals, and none', () => {
  expect(scheduleWords({ every_ms: 600_000 })).toBe('every 10 m')
  expect(scheduleWords(null)).toBe('on demand')
})
