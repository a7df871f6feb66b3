import { expect, it } from 'vitest'
import { pairedRatio, quantile, summarise } from './statistics.ts'

it('interpolates quantiles', () => {
  expect(quantile([4, 1, 3, 2], 0.5)).toBe(2.5)
  expect(quantile([10], 0.99)).toBe(10)
  expect(summarise([1, 2, 3])).toEqual({ n: 3, p50: 2, p90: 2.8, p99: 2.98, min: 1, max: 3 })
})

it('pairs samples by round, so that a round that is slow for both does not count', () => {
  expect(pairedRatio([1, 100, 1], [2, 200, 2])).toEqual({ n: 3, median: 0.5, p10: 0.5, p90: 0.5 })
})
