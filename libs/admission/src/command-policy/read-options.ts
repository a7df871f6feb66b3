/** Finds the command behind the options of a program that runs it: `timeout -k 5 30 rm x` → `rm x`. */
import type { Argument } from './constant-word.ts'

/** The options of such a program. Letters are single-letter options. Unlisted options cannot be read. */
export interface OptionShape {
  /** Options without a value. */
  flags?: string
  /** Options with a value, attached or the next word. */
  values?: string
  /** Options whose value is only ever attached. */
  attached?: string
  /** With one of these options, the program runs no other program. */
  inert?: string
  long?: Readonly<Record<string, 'none' | 'value' | 'attached'>>
  /** Words between the options and the command. */
  operands?: number
  /** NAME=VALUE words may come before the command. */
  assignments?: boolean
}

export interface ReadOptions {
  /** The command and its words. Empty when none is run. */
  command: Argument[]
  options: Map<string, string>
  assignments: string[]
}

/** Reads `words` (after the program's name). Returns a sentence with the reason when they cannot be read. */
export function readOptions(words: readonly Argument[], shape: OptionShape): ReadOptions | string {
  const options = new Map<string, string>()
  const assignments: string[] = []
  let at = 0
  let inert = false
  for (; at < words.length; at += 1) {
    const word = words[at]
    if (word === null || word === undefined) return 'a word before the command is not constant'
    if (word === '--') {
      at += 1
      break
    }
    if (!word.startsWith('-') || (word === '-' && shape.flags?.includes('-') !== true)) break
    if (word === '-') continue
    const took = word.startsWith('--')
      ? readLong(word, words[at + 1], shape, options)
      : readLetters(word, words[at + 1], shape, options)
    if (typeof took === 'string') return took
    if (shape.inert?.split('').some((letter) => options.has(letter)) === true) inert = true
    at += took
  }
  for (let left = shape.operands ?? 0; left > 0; left -= 1, at += 1)
    if (words[at] === null) return 'a word before the command is not constant'
  if (shape.assignments === true)
    for (; at < words.length; at += 1) {
      const word = words[at]
      if (word === null || word === undefined) return 'a word before the command is not constant'
      if (!word.includes('=')) break
      assignments.push(word.slice(0, word.indexOf('=')))
    }
  return { command: inert ? [] : words.slice(at), options, assignments }
}

/** The number of further words that belong to the option, or a sentence that says why it is not known. */
function readLong(
  word: string,
  next: Argument | undefined,
  shape: OptionShape,
  options: Map<string, string>,
): number | string {
  const equals = word.indexOf('=')
  const name = equals < 0 ? word.slice(2) : word.slice(2, equals)
  const kind = shape.long !== undefined && Object.hasOwn(shape.long, name) ? shape.long[name] : undefined
  if (kind === undefined || (kind === 'none' && equals >= 0)) return `the option ${word} is not read`
  if (equals >= 0 || kind !== 'value') {
    options.set(name, equals < 0 ? '' : word.slice(equals + 1))
    return 0
  }
  if (next === null || next === undefined) return `the value of ${word} is not constant`
  options.set(name, next)
  return 1
}

function readLetters(
  word: string,
  next: Argument | undefined,
  shape: OptionShape,
  options: Map<string, string>,
): number | string {
  for (let at = 1; at < word.length; at += 1) {
    const letter = word.charAt(at)
    const rest = word.slice(at + 1)
    if (
      shape.attached?.includes(letter) === true ||
      (shape.values?.includes(letter) === true && rest !== '')
    ) {
      options.set(letter, rest)
      return 0
    }
    if (shape.values?.includes(letter) === true) {
      if (next === null || next === undefined) return `the value of -${letter} is not constant`
      options.set(letter, next)
      return 1
    }
    if (shape.flags?.includes(letter) !== true && shape.inert?.includes(letter) !== true)
      return `the option ${word} is not read`
    options.set(letter, '')
  }
  return 0
}
