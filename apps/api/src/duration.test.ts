import { describe, expect, it } from 'vitest'
import { parseDurationMs, waitSchema } from './duration.ts'

describe('parseDurationMs', () => {
  it.each([
    ['30s', 30_000],
    ['1500ms', 1500],
    ['1.5s', 1500],
    ['0', 0],
    ['0s', 0],
    ['30', null],
    ['-1s', null],
    ['1m', null],
    ['', null],
    ['1e3s', null],
  ])('reads %j', (text, expected) => {
    expect(parseDurationMs(text)).toBe(expected)
  })

  it('bounds a wait at 60 seconds', () => {
    expect(waitSchema.safeParse('60s').success).toBe(true)
    expect(waitSchema.safeParse('60001ms').success).toBe(false)
    expect(waitSchema.safeParse('soon').success).toBe(false)
  })
})
