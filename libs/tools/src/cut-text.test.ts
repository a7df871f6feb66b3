import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { headAndTail, keepLastLines } from './cut-text.ts'

const texts = fc.oneof(
  fc.string({ maxLength: 600, unit: 'grapheme' }),
  fc.array(fc.string({ maxLength: 120 }), { maxLength: 30 }).map((lines) => lines.join('\n')),
)

describe('headAndTail', () => {
  it('keeps short text, and never returns more than was asked for', () => {
    fc.assert(
      fc.property(texts, fc.nat(700), fc.double({ min: 0, max: 1, noNaN: true }), (text, max, share) => {
        const cut = headAndTail(text, max, share)
        expect(cut.length).toBeLessThanOrEqual(max)
        expect(cut.isWellFormed()).toBe(true)
        if (text.length <= max) expect(cut).toBe(text)
      }),
    )
  })

  it('says how much is left out between the two ends', () => {
    const cut = headAndTail(`${'a'.repeat(500)}${'b'.repeat(500)}`, 260)
    expect(cut).toBe(`${'a'.repeat(150)}\n… 800 characters left out …\n${'b'.repeat(50)}`)
  })
})

describe('keepLastLines', () => {
  it('never returns more than was asked for, and keeps the last line if it has room', () => {
    fc.assert(
      fc.property(texts, fc.integer({ min: 0, max: 700 }), (text, max) => {
        const cut = keepLastLines(text, max)
        const last = text.trimEnd().split('\n').at(-1) ?? ''
        expect(cut.length).toBeLessThanOrEqual(max)
        expect(cut.isWellFormed()).toBe(true)
        if (last.length <= max - 60) expect(cut).toContain(last)
      }),
    )
  })

  it('keeps the last lines of a traceback whole after megabytes of noise', () => {
    const traceback = [
      'Traceback (most recent call last):',
      '  File "main.py", line 3, in <module>',
      '    load(path)',
      'ValueError: no such colour: “mauve”',
    ].join('\n')
    const cut = keepLastLines(`${'warning: noise\n'.repeat(100_000)}${traceback}\n`, 1000)
    expect(cut.endsWith(traceback)).toBe(true)
    expect(cut.startsWith('warning: noise\n')).toBe(true)
    expect(cut).toMatch(/… \d+ characters left out …/)
    expect(cut.length).toBeLessThanOrEqual(1000)
  })

  it('keeps both ends of a last line that alone is too long', () => {
    const cut = keepLastLines(`noise\nValueError: ${'x'.repeat(5000)} at the end`, 300)
    expect(cut.startsWith('ValueError: ')).toBe(true)
    expect(cut.endsWith(' at the end')).toBe(true)
  })
})
