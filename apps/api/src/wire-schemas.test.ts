import { describe, expect, it } from 'vitest'
import { waitSchema } from './wire-schemas.ts'

describe('a wait', () => {
  it.each([
    ['30s', 30_000],
    ['1500ms', 1500],
    ['1.5s', 1500],
    ['60s', 60_000],
    ['0', 0],
    ['0s', 0],
    ['30', undefined],
    ['-1s', undefined],
    ['1m', undefined],
    ['', undefined],
    ['1e3s', undefined],
    ['60001ms', undefined],
    ['soon', undefined],
  ])('is read from the text %j, or refused', (text, expected) => {
    expect(waitSchema.safeParse(text).data).toBe(expected)
  })
})
