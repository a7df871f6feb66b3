import fc from 'fast-check'
import { expect, it } from 'vitest'
import { newestBytes } from './newest-bytes.ts'
import { cutToTokens } from './openai-agents-output.ts'
import { decodeText, encodeText, linesOf } from './text-encoding.ts'

const text = fc.string({ unit: 'grapheme', maxLength: 60 })

it('encodes what it decodes, byte order mark included', () => {
  fc.assert(
    fc.property(text, fc.constantFrom('utf-8', 'UTF8', 'utf-16le'), (one, encoding) => {
      expect(decodeText(encodeText(`\uFEFF${one}`, encoding), encoding)).toBe(`\uFEFF${one}`)
    }),
  )
  expect(() => encodeText('x', 'latin1')).toThrow('utf-8')
  expect(() => decodeText(new Uint8Array(), 'klingon')).toThrow(RangeError)
})

it('cuts lines as the AI SDK does', () => {
  expect(linesOf('a\nb\nc\n', 2, 3)).toBe('b\nc')
  expect(linesOf('a\r\nb\r\nc', 2)).toBe('b\r\nc')
  expect(linesOf('a\rb', 1, 1)).toBe('a')
  expect(linesOf('a\nb', undefined, 99)).toBe('a\nb')
  expect(linesOf('a\nb', -3, 1)).toBe('a')
  expect(linesOf('a\nb', 5)).toBe('')
  expect(linesOf('a\n')).toBe('a\n')
})

it('keeps the newest bytes without half a character', () => {
  fc.assert(
    fc.property(text, fc.nat(80), (one, most) => {
      const whole = Buffer.from(one.toWellFormed())
      const { text: kept, dropped } = newestBytes(one.toWellFormed(), most)
      expect(kept).toBe(whole.toString('utf8', dropped))
      expect(kept).not.toContain('\uFFFD')
      expect(whole.length - dropped).toBeLessThanOrEqual(most)
      // To keep whole characters, at most three more bytes are dropped.
      expect(dropped - Math.max(0, whole.length - most)).toBeLessThan(4)
    }),
  )
  expect(newestBytes('abc', Number.POSITIVE_INFINITY)).toEqual({ text: 'abc', dropped: 0 })
})

it('keeps head and tail of an output that has too many tokens', () => {
  expect(cutToTokens('x'.repeat(40), undefined)).toEqual({ text: 'x'.repeat(40) })
  expect(cutToTokens('x'.repeat(40), 10)).toEqual({ text: 'x'.repeat(40) })
  expect(cutToTokens(`${'a'.repeat(20)}${'z'.repeat(21)}`, 2)).toEqual({
    text: 'aaaa...9 tokens truncated...zzzz',
    originalTokenCount: 11,
  })
  expect(cutToTokens('ü'.repeat(30), 3).text).toBe('üüü...12 tokens truncated...üüü')
  expect(cutToTokens('€'.repeat(30), 2).text).toBe('€...21 tokens truncated...€')
})
