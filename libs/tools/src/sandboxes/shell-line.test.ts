import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { inFolder, quoted } from './shell-line.ts'

const bash = (line: string): string => execFileSync('bash', ['-c', line], { encoding: 'utf8' })
/** Any text that an argument may have. */
const argument = fc.string({ unit: 'binary', maxLength: 20 }).filter((text) => !text.includes('\0'))

it('quotes any texts so that bash passes them on unchanged', () => {
  fc.assert(
    // Many words in few runs, because each run starts a bash.
    fc.property(fc.array(argument, { minLength: 100, maxLength: 200 }), (words) => {
      expect(bash(`printf '%s\\0' ${words.map(quoted).join(' ')}`)).toBe(`${words.join('\0')}\0`)
    }),
    { numRuns: 3 },
  )
  expect(() => quoted('a\0b')).toThrow('NUL')
})

it('runs a command in a folder, or not at all', () => {
  expect(bash(inFolder('/', 'pwd'))).toBe('/\n')
  expect(bash(`(${inFolder('/no such', 'echo ran')}) 2>/dev/null; echo $?`)).toBe('1\n')
  expect(bash(inFolder('/', '# a comment\npwd'))).toBe('/\n')
  expect(bash(inFolder(null, ' \n'))).toBe('')
})

it('keeps the line numbers of errors', () => {
  expect(bash(`${inFolder('/', 'true\necho $LINENO')}`)).toBe('2\n')
})
