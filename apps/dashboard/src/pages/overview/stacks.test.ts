import type { Stats } from '@cofferdam/client'
import { expect, it } from 'vitest'
import { lastKnown, mostOf, stacksOf, sumOf, sumsOf } from './stacks.ts'

const lists = (count: (number | null)[]): Stats['total'] => {
  const none = count.map(() => null)
  return {
    count,
    wait_p50_ms: none,
    wait_p95_ms: none,
    run_p50_ms: none,
    run_p95_ms: none,
    cost: count,
  }
}
const stats = (groups: Stats['groups'], rest: Stats['rest'] = null): Stats => ({
  starts_at: '2026-11-26T10:00:00.000Z',
  ends_at: '2026-11-26T10:03:00.000Z',
  step_ms: 60_000,
  group_by: 'ending',
  counted_from: '2026-11-26T10:00:00.000Z',
  total: lists([]),
  groups,
  rest,
})

it('keeps the order of endings, whichever was the most frequent, and unknown ones for the end', () => {
  const found = stacksOf(
    stats(
      [
        { key: 'oom', ...lists([5, 0, 1]) },
        { key: 'constructor', ...lists([0, 1, 0]) },
        { key: 'ok', ...lists([null, 1, 1]) },
        { key: null, ...lists([0, 0, 1]) },
      ],
      lists([1, 1, 1]),
    ),
  )
  expect(found.map(({ key, words, total }) => [key, words, total])).toEqual([
    ['ok', 'Succeeded', 2],
    ['oom', 'Out of memory', 6],
    ['constructor', 'constructor', 1],
    ['none', 'Without an ending', 1],
    ['rest', 'Others', 3],
  ])
  expect(sumsOf(found)).toEqual([6, 3, 4])
  expect(mostOf(found)).toBe(6)
})

it('has nothing to divide by nothing', () => {
  expect(mostOf(stacksOf(stats([])))).toBe(1)
  expect(sumsOf([])).toEqual([])
  expect(lastKnown([3, 0, null])).toBe(0)
  expect(lastKnown([null])).toBe(null)
  expect(sumOf([null, 2, 3])).toBe(5)
})
