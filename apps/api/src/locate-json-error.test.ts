import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { locateJsonError } from './locate-json-error.ts'

describe('locateJsonError', () => {
  it.each([
    ['{"a": 1,\n "b": }', { line: 2, column: 7, expected: 'a value' }],
    ['{a: 1}', { line: 1, column: 2, expected: 'a key in double quotes or }' }],
    ['{"a" 1}', { line: 1, column: 6, expected: 'a colon' }],
    ['[1, 2', { line: 1, column: 6, expected: 'a comma or the closing bracket' }],
    ['[1,]', { line: 1, column: 4, expected: 'a value' }],
    ['{"a":1,}', { line: 1, column: 8, expected: 'a key in double quotes' }],
    ['{"a":1}}', { line: 1, column: 8, expected: 'the end of the text' }],
    ['', { line: 1, column: 1, expected: 'a value' }],
    ['{"a": "b\n"}', { line: 1, column: 9, expected: 'the control character to be escaped' }],
    ['["\\x"]', { line: 1, column: 4, expected: 'an escape such as \\n or \\u0041' }],
    ['["abc', { line: 1, column: 6, expected: 'the closing quote' }],
    ['[01]', { line: 1, column: 2, expected: 'a value or ]' }],
    ['nul', { line: 1, column: 1, expected: 'a value' }],
    ['[1}', { line: 1, column: 3, expected: 'a comma or the closing bracket' }],
  ])('finds the mistake in %j', (text, expected) => {
    expect(locateJsonError(text)).toEqual(expected)
  })

  it('finds nothing in valid JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(3), (value, indent) => {
        expect(locateJsonError(JSON.stringify(value, null, indent))).toBeNull()
      }),
    )
  })

  it('finds a mistake exactly when JSON.parse refuses the text', () => {
    const token = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"a"',
      '"',
      '1',
      '-',
      'true',
      'nul',
      ' ',
      '\n',
    )
    fc.assert(
      fc.property(fc.array(token, { maxLength: 12 }), (tokens) => {
        const text = tokens.join('')
        let valid = true
        try {
          JSON.parse(text)
        } catch {
          valid = false
        }
        expect(locateJsonError(text) === null).toBe(valid)
      }),
      { numRuns: 2000 },
    )
  })

  it('handles a million open brackets', () => {
    expect(locateJsonError('['.repeat(1_000_000))).toMatchObject({ column: 1_000_001 })
  })
})
