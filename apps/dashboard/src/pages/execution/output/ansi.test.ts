import fc from 'fast-check'
import { expect, it } from 'vitest'
import { PLAIN, withoutEscapes, readLine } from './ansi.ts'

const ESC = '\u001b'
const textOf = (line: string): string =>
  readLine(line, PLAIN)
    .pieces.map(({ text }) => text)
    .join('')

it('keeps the 16 colours, bold and underline', () => {
  const { pieces, look } = readLine(`a${ESC}[31mb${ESC}[1;4;102mc${ESC}[0md`, PLAIN)
  expect(pieces).toEqual([
    { text: 'a', look: PLAIN },
    { text: 'b', look: { ...PLAIN, colour: 1 } },
    { text: 'c', look: { colour: 1, ground: 10, bold: true, underline: true } },
    { text: 'd', look: PLAIN },
  ])
  expect(look).toEqual(PLAIN)
})

it('carries the look into the next line', () => {
  const { look } = readLine(`${ESC}[92mgreen`, PLAIN)
  expect(readLine('still', look).pieces).toEqual([{ text: 'still', look: { ...PLAIN, colour: 10 } }])
})

it('does not take the numbers of other colours for codes', () => {
  expect(readLine(`${ESC}[38;5;1mx`, PLAIN).look).toEqual(PLAIN)
  expect(readLine(`${ESC}[38;2;1;4;31mx`, PLAIN).look).toEqual(PLAIN)
  expect(readLine(`${ESC}[38;5;1;1mx`, PLAIN).look).toEqual({ ...PLAIN, bold: true })
})

it.each([
  ['a link', `${ESC}]8;;http://evil.example${'\u0007'}text${ESC}]8;;${ESC}\\`, 'text'],
  ['a title', `${ESC}]0;title${'\u0007'}x`, 'x'],
  ['moves of the cursor', `${ESC}[2J${ESC}[1;1Hx${ESC}[K`, 'x'],
  ['a cut-off escape', `x${ESC}[31`, 'x'],
  ['a lone escape', `x${ESC}`, 'x'],
  ['a device string', `${ESC}Pq#0${ESC}\\x`, 'x'],
  ['control characters', 'a\u0000\u0008\u0085b\u007f', 'ab'],
  ['changes of direction', 'abc\u202etxt', 'abc\ufffdtxt'],
  [
    'piled-up marks',
    `Z${'\u0301'.repeat(500)}x\u0e01\u0e34\u0e48`,
    `Z${'\u0301'.repeat(4)}x\u0e01\u0e34\u0e48`,
  ],
  ['nothing of markup', '<img src=x>', '<img src=x>'],
])('drops %s', (_, line, text) => {
  expect(textOf(line)).toBe(text)
})

it('never lets an escape or control character through', () => {
  const part = fc.oneof(
    fc.string(),
    fc.constantFrom(ESC, `${ESC}[`, `${ESC}]`, 'm', ';', '31', '\u0007', '\\', '\u009b', '\u202e'),
  )
  fc.assert(
    fc.property(fc.array(part, { maxLength: 30 }), (parts) => {
      // oxlint-disable-next-line no-control-regex
      expect(textOf(parts.join(''))).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/)
    }),
  )
})

it('strips a text of its escapes, keeps its lines, and ends it', () => {
  expect(withoutEscapes(`${ESC}[31mValueError${ESC}[0m: a\r\n\tb${ESC}]0;title`)).toBe('ValueError: a\n\tb')
  expect(withoutEscapes('x'.repeat(3000))).toBe(`${'x'.repeat(2000)} …`)
  expect(withoutEscapes('abc', 3)).toBe('abc')
})
