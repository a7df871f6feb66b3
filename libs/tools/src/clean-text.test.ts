import { stripVTControlCharacters } from 'node:util'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { cleanText } from './clean-text.ts'

it.each([
  ['colours', '\u001b[31mred\u001b[0m', 'red'],
  ['a title', '\u001b]0;title\u0007plain', 'plain'],
  ['a title that ends with ST', '\u001b]0;title\u001b\\plain', 'plain'],
  ['one-byte CSI', '\u009b2Jplain', 'plain'],
  ['an endless title', '\u001b]0;title and no end', '0;title and no end'],
  ['a bare escape', 'a\u001b', 'a�'],
  ['line ends', 'a\r\nb\rc', 'a\nb\nc'],
  ['a text that is turned', '\u202eabc\u2066', '�abc�'],
  ['tag characters', 'a\u{e0041}\u{e007f}', 'a��'],
  ['half characters', '\ud800a😀\udc00', '�a😀�'],
  ['NUL, backspace and delete', 'a\u0000b\u0008c\u007f', 'a�b�c�'],
])('removes %s', (_name, text, clean) => {
  expect(cleanText(text)).toBe(clean)
})

it('leaves nothing that hides or moves text, and nothing that Node would still strip', () => {
  const hostile = fc.constantFrom(
    '\u001b',
    '[',
    ']',
    '0;',
    'm',
    '\u0007',
    '\\',
    '\u009b',
    'P',
    '\r',
    'ä',
    '\u202e',
  )
  fc.assert(
    fc.property(fc.array(fc.oneof(hostile, fc.string({ maxLength: 3 })), { maxLength: 30 }), (parts) => {
      const clean = cleanText(parts.join(''))
      // oxlint-disable-next-line no-control-regex
      expect(clean).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u{e0000}-\u{e007f}]/u)
      expect(clean.isWellFormed()).toBe(true)
      expect(stripVTControlCharacters(clean)).toBe(clean)
    }),
  )
})

it('takes time in proportion to the text, whatever is in it', () => {
  const started = performance.now()
  cleanText('\u001b]'.repeat(100_000) + '\u001b['.repeat(100_000) + '9;'.repeat(100_000))
  expect(performance.now() - started).toBeLessThan(5000)
})
