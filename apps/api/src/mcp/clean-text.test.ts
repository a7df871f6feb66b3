import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cleanText, headAndTail } from './clean-text.ts'
import { wholeCharacters } from './output-part.ts'

// oxlint-disable-next-line no-control-regex
const HOSTILE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/u

describe('the text of programs', () => {
  it('has no sequences of terminals, and keeps its words and lines', () => {
    expect(cleanText('\u001b[31mred\u001b[0m\tand\r\n10 %\r20 %\u0007')).toBe('red\tand\n10 %\n20 %\ufffd')
    expect(cleanText('\u001b]8;;https://evil.example\u0007click\u001b]8;;\u0007')).toBe('click')
  })

  it('shows where words were hidden or turned', () => {
    expect(cleanText('a\u202eb\u2066c\u{e0041}')).toBe('a\ufffdb\ufffdc\ufffd')
  })

  it('has nothing hostile, whatever the program printed', () => {
    const odd = fc.constantFrom(
      '\u001b[',
      '\u009b',
      '\u202e',
      '\u{e0041}',
      '\u0000',
      '\r',
      '\n',
      'x',
      '\ud800',
    )
    fc.assert(
      fc.property(fc.array(fc.oneof(odd, fc.string({ unit: 'binary' }))), (parts) => {
        const text = cleanText(parts.join(''))
        expect(text).not.toMatch(HOSTILE)
        expect(text.isWellFormed()).toBe(true)
      }),
    )
  })
})

describe('the head and the tail of a text', () => {
  it('are all of a short text', () => {
    expect(headAndTail('short', 5)).toBe('short')
  })

  it('say how much is missing between them', () => {
    expect(headAndTail(`${'h'.repeat(90)}${'t'.repeat(30)}`, 40)).toBe(
      `${'h'.repeat(30)}\n… 80 characters left out …\n${'t'.repeat(10)}`,
    )
  })
})

describe('a part of an output', () => {
  it('ends between two characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 4 }), fc.nat(), (text, cut) => {
        const bytes = Buffer.from(text)
        const part = bytes.subarray(0, cut % (bytes.length + 1))
        const whole = wholeCharacters(part)
        expect(part.length - whole).toBeLessThan(4)
        expect(part.subarray(0, whole).toString()).toBe(
          text.slice(0, part.subarray(0, whole).toString().length),
        )
        expect(part.subarray(0, whole).toString().includes('\ufffd')).toBe(
          text.slice(0, part.subarray(0, whole).toString().length).includes('\ufffd'),
        )
      }),
    )
  })
})
