import { expect, test } from 'vitest'
import { pauseAfter } from './throttled.ts'

test.each([
  ['2', 2000],
  ['0', 0],
  ['0.5', 500],
  ['', 1000],
  ['soon', 1000],
  ['-1', 1000],
  ['11', null],
])('waits as long as a valid Retry-After of %j asks for', (asked, pauseMs) => {
  expect(pauseAfter(1, new Headers({ 'Retry-After': asked }))).toBe(pauseMs)
})
