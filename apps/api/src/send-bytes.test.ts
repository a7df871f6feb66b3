import { describe, expect, it } from 'vitest'
import { selectRange } from './send-bytes.ts'

describe('selectRange over 100 bytes', () => {
  it.each([
    ['bytes=0-9', { kind: 'part', range: { start: 0, end: 10 } }],
    ['bytes=90-', { kind: 'part', range: { start: 90, end: 100 } }],
    ['bytes=90-1000', { kind: 'part', range: { start: 90, end: 100 } }],
    ['bytes=-10', { kind: 'part', range: { start: 90, end: 100 } }],
    ['bytes=-1000', { kind: 'part', range: { start: 0, end: 100 } }],
    ['bytes= 0 - 0', { kind: 'part', range: { start: 0, end: 1 } }],
    ['bytes=100-', { kind: 'outside' }],
    ['bytes=-0', { kind: 'outside' }],
    ['bytes=9-1', { kind: 'whole' }],
    ['bytes=0-1,5-6', { kind: 'whole' }],
    ['items=0-1', { kind: 'whole' }],
    ['bytes=-', { kind: 'whole' }],
    ['bytes=a-b', { kind: 'whole' }],
    [undefined, { kind: 'whole' }],
  ])('handles the header %s', (header, expected) => {
    expect(selectRange(header, 100)).toEqual(expected)
  })

  it('reports that every range is outside an empty output', () => {
    expect(selectRange('bytes=0-', 0)).toEqual({ kind: 'outside' })
  })
})
