import { describe, expect, it } from 'vitest'
import type { Command } from './command.ts'
import {
  durationFlag,
  hasFlag,
  numberFlag,
  parseCommandLine,
  textFlag,
  textFlags,
} from './parse-command-line.ts'
import { UsageError } from './usage-error.ts'

const command: Command = {
  usage: 'FILE [-- ARGV…]',
  flags: {
    timeout: { type: 'string', short: 't', value: 'TIME', description: '' },
    memory: { type: 'string', description: '' },
    file: { type: 'string', short: 'f', multiple: true, description: '' },
    follow: { type: 'boolean', description: '' },
  },
  words: { min: 1, max: 2 },
  takesRest: true,
  examples: [],
  run: () => Promise.resolve(0),
}

const parse = (...args: string[]) => parseCommandLine('run', command, args)

describe('parseCommandLine', () => {
  it('reads words, flags in both spellings, repeated flags, and the arguments after --', () => {
    const line = parse('a.py', '--timeout=2m', '-f', 'x', '--file', 'y', '--follow', '--', '--timeout', '-x')
    expect(line.words).toEqual(['a.py'])
    expect(line.rest).toEqual(['--timeout', '-x'])
    expect(textFlag(line, 'timeout')).toBe('2m')
    expect(textFlags(line, 'file')).toEqual(['x', 'y'])
    expect(hasFlag(line, 'follow')).toBe(true)
    expect(hasFlag(line, 'json')).toBe(false)
  })

  it('accepts a lone - as a word and as a value', () => {
    expect(parse('-').words).toEqual(['-'])
    expect(textFlag(parse('a', '--memory', '-'), 'memory')).toBe('-')
  })

  it.each([
    [['a', '--timeuot', '3'], 'cofferdam run has no flag --timeuot. Did you mean --timeout?'],
    [['a', '--zzzzzzzz'], 'cofferdam run has no flag --zzzzzzzz. See cofferdam run --help.'],
    [['a', '-q'], 'cofferdam run has no flag -q. See cofferdam run --help.'],
    [['a', '--timeout'], '--timeout expects a value: --timeout TIME.'],
    [['a', '--timeout', '--follow'], '--timeout expects a value: --timeout TIME.'],
    [['a', '--follow=yes'], '--follow takes no value, got "yes".'],
    [[], 'A word is missing. Usage: cofferdam run FILE [-- ARGV…]'],
    [['a', 'b', 'c'], 'Unexpected "c". Usage: cofferdam run FILE [-- ARGV…]'],
  ])('refuses %j', (args, message) => {
    expect(() => parse(...args)).toThrow(new UsageError(message))
  })

  it('ignores the number of words when --help is given', () => {
    expect(parse('--help').flags['help']).toBe(true)
  })

  it('refuses -- for a command that takes no arguments after it', () => {
    expect(() => parseCommandLine('status', { ...command, takesRest: false }, ['x', '--', 'y'])).toThrow(
      'cofferdam status takes no arguments after --.',
    )
  })

  it('refuses a flag that is named like a property of Object', () => {
    expect(() => parse('a', '--constructor', 'x')).toThrow('has no flag --constructor')
  })
})

describe('durationFlag', () => {
  it.each([
    ['500ms', 500],
    ['30', 30_000],
    ['30s', 30_000],
    ['1.5s', 1500],
    ['2m', 120_000],
    ['1h', 3_600_000],
  ])('reads %s', (text, ms) => {
    expect(durationFlag(parse('a', '--timeout', text), 'timeout')).toBe(ms)
  })

  it.each(['', 'soon', '5 days', '=-1'])('refuses %j', (text) => {
    expect(() => durationFlag(parse('a', `--timeout=${text}`), 'timeout')).toThrow('expects a duration')
  })
})

describe('numberFlag', () => {
  const bounds = { min: 1, max: 10 }
  it('reads a number within its bounds', () => {
    expect(numberFlag(parse('a', '--memory', '10'), 'memory', bounds)).toBe(10)
    expect(numberFlag(parse('a'), 'memory', bounds)).toBeUndefined()
  })

  it.each(['0', '11', '1.5', 'x', '', 'NaN'])('refuses %j and names the bounds', (text) => {
    expect(() => numberFlag(parse('a', `--memory=${text}`), 'memory', bounds)).toThrow(
      `--memory expects a whole number from 1 to 10, got ${JSON.stringify(text)}.`,
    )
  })
})
