/** What one command runs besides itself: other commands, shell texts, or something unknown. */
import { posix } from 'node:path'
import type { Argument } from './constant-word.ts'
import { readOptions } from './read-options.ts'
import { RUNNING_VARIABLES, SHELLS, UNREAD, UNREAD_BUILTINS, WRAPPERS, XARGS } from './running-programs.ts'

export type Run = { argv: readonly Argument[]; byShell: boolean } | { text: string } | { unclear: string }

/** A file of this kind is a stream that another process fills. */
const STREAM_FILE = /^\/(dev|proc)\//

/**
 * What the command `argv` runs. `input` is the text on its standard input: null if it is not constant,
 * undefined if the shell text gives it none.
 */
export function commandsRunBy(argv: readonly Argument[], input: Argument | undefined): Run[] {
  const [name, ...words] = argv
  if (name === null || name === undefined) return [{ unclear: 'its name is not constant' }]
  const program = posix.basename(name)
  if (UNREAD.has(program)) return [{ unclear: 'it runs other programs in a form that is not read' }]
  if (UNREAD_BUILTINS.has(program))
    return words.length === 0 ? [] : [{ unclear: 'it changes what later words mean' }]
  if (SHELLS.has(program)) return shellRuns(words, input)
  if (Object.hasOwn(WRAPPERS, program)) return wrapperRuns(program, words)
  switch (program) {
    case 'xargs':
      return xargsRuns(words)
    case 'find':
      return findRuns(words)
    case 'fd':
    case 'fdfind':
      return words.some((word) => word === null || /^(--exec|-[a-zA-Z0-9]*[xX])/.test(word))
        ? [{ unclear: 'its words may name a command' }]
        : []
    case 'eval':
      return joinedText(words[0] === '--' ? words.slice(1) : words)
    case 'trap':
      return trapRuns(words)
    case 'source':
    case '.':
      return fileRuns(words[0] === '--' ? words[1] : words[0])
    case 'hash':
      return words.some((word) => word === null || /^-[a-z]*p/.test(word))
        ? [{ unclear: 'it changes what later names mean' }]
        : []
    case 'mapfile':
    case 'readarray':
      return words.some((word) => word === null || /^-[a-zA-Z]*C/.test(word))
        ? [{ unclear: 'it may call back a command' }]
        : []
    default:
      return []
  }
}

function wrapperRuns(program: string, words: readonly Argument[]): Run[] {
  const shape = WRAPPERS[program] ?? {}
  const read = readOptions(words, shape)
  if (typeof read === 'string') return [{ unclear: read }]
  if (read.assignments.some((variable) => RUNNING_VARIABLES.has(variable)))
    return [{ unclear: 'it sets a variable that runs code' }]
  const byShell = program === 'command' || program === 'builtin'
  return read.command.length === 0 ? [] : [{ argv: read.command, byShell }]
}

/** The words that xargs adds come from its input, so they are unknown, even the command's name. */
function xargsRuns(words: readonly Argument[]): Run[] {
  const read = readOptions(words, XARGS)
  if (typeof read === 'string') return [{ unclear: read }]
  const { options, command } = read
  if (command.length === 0) return []
  const mark = options.get('I') ?? (options.has('i') ? options.get('i') || '{}' : undefined)
  const long = options.has('replace') ? options.get('replace') || '{}' : undefined
  const replaced = mark ?? long
  const argv =
    replaced === undefined
      ? [...command, null]
      : command.map((word) => (word?.includes(replaced) === true ? null : word))
  return [{ argv, byShell: false }]
}

function findRuns(words: readonly Argument[]): Run[] {
  const runs: Run[] = []
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at]
    if (word === null || word === undefined) return [{ unclear: 'one of its words is not constant' }]
    if (!/^-(exec|execdir|ok|okdir)$/.test(word)) continue
    const argv: Argument[] = []
    for (at += 1; at < words.length && words[at] !== ';'; at += 1) {
      const part = words[at]
      if (part === null || part === undefined) return [{ unclear: 'one of its words is not constant' }]
      if (part === '+' && words[at - 1] === '{}') break
      argv.push(part.includes('{}') ? null : part)
    }
    runs.push({ argv, byShell: false })
  }
  return runs
}

/** `sh -c TEXT`, `sh FILE`, or a text on standard input. */
function shellRuns(words: readonly Argument[], input: Argument | undefined): Run[] {
  let wantsText = false
  let readsInput = false
  let at = 0
  for (; at < words.length; at += 1) {
    const word = words[at]
    if (word === null || word === undefined) return [{ unclear: 'one of its options is not constant' }]
    if (word === '--' || word === '-') {
      at += 1
      break
    }
    if (!/^[-+]/.test(word)) break
    if (word.startsWith('--')) {
      // These options name files that the shell runs before anything else.
      if (/^--(rcfile|init-file)/.test(word)) return [{ unclear: `the option ${word} is not read` }]
      continue
    }
    if (word.startsWith('-') && word.includes('c')) wantsText = true
    if (word.startsWith('-') && word.includes('s')) readsInput = true
    // Each letter o or O is followed by one more word, the name of a shell option.
    at += word.replaceAll(/[^oO]/g, '').length
  }
  const first = words[at]
  if (wantsText)
    return first === null || first === undefined
      ? [{ unclear: 'its text is not constant' }]
      : [{ text: first }]
  if (first !== undefined && !readsInput) return fileRuns(first)
  return typeof input === 'string' ? [{ text: input }] : [{ unclear: 'it takes its commands from its input' }]
}

/** A script file is like the script of any other interpreter: only its interpreter is judged. */
function fileRuns(file: Argument | undefined): Run[] {
  if (file === undefined) return []
  if (file === null) return [{ unclear: 'the file that it runs is not constant' }]
  return STREAM_FILE.test(posix.normalize(file)) ? [{ unclear: 'it takes its commands from its input' }] : []
}

function trapRuns(words: readonly Argument[]): Run[] {
  const rest = words[0] === '--' ? words.slice(1) : words
  const [text] = rest
  if (text === null) return [{ unclear: 'its text is not constant' }]
  if (text === undefined || rest.length < 2 || text === '' || text === '-') return []
  return /^-[lpP]+$/.test(text) ? [] : [{ text }]
}

function joinedText(words: readonly Argument[]): Run[] {
  return words.includes(null) ? [{ unclear: 'its text is not constant' }] : [{ text: words.join(' ') }]
}
