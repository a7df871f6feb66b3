/** Parses the command line. An unknown name gets an error with the nearest known name. */
import { parseArgs } from 'node:util'
import { nearestName } from '@cofferdam/config'
import { type ExecutionId, executionIdSchema } from '@cofferdam/contract'
import { type Command, type CommandLine, COMMON_FLAGS, type Flag } from './command.ts'
import { UsageError } from './usage-error.ts'

/** Parses what follows the command's name. Throws `UsageError`. */
export function parseCommandLine(name: string, command: Command, args: readonly string[]): CommandLine {
  const flags: Record<string, Flag> = { ...command.flags, ...COMMON_FLAGS }
  const cut = args.indexOf('--')
  const ours = cut < 0 ? [...args] : args.slice(0, cut)
  const rest = cut < 0 ? [] : args.slice(cut + 1)
  const { values, positionals, tokens } = parseArgs({
    args: ours,
    options: Object.fromEntries(
      Object.entries(flags).map(([flag, { type, short, multiple }]) => [
        flag,
        { type, ...(short === undefined ? {} : { short }), multiple: multiple === true },
      ]),
    ),
    allowPositionals: true,
    // Not strict, because its errors name no nearest flag. checkOption refuses what strict mode would.
    strict: false,
    tokens: true,
  })
  for (const token of tokens) if (token.kind === 'option') checkOption(name, flags, token)
  if (cut >= 0 && command.takesRest !== true)
    throw new UsageError(`cofferdam ${name} takes no arguments after --.`)
  const help = values['help'] === true
  if (!help) checkWordCount(name, command, positionals)
  return { flags: values as CommandLine['flags'], words: positionals, rest }
}

interface OptionToken {
  name: string
  rawName: string
  value: string | undefined
  inlineValue: boolean | undefined
}

function checkOption(command: string, flags: Record<string, Flag>, token: OptionToken): void {
  const flag = Object.hasOwn(flags, token.name) ? flags[token.name] : undefined
  if (flag === undefined) {
    const nearest = nearestName(token.name, Object.keys(flags))
    const hint = nearest === null ? `See cofferdam ${command} --help.` : `Did you mean --${nearest}?`
    throw new UsageError(`cofferdam ${command} has no flag ${token.rawName}. ${hint}`)
  }
  if (flag.type === 'boolean' && token.value !== undefined)
    throw new UsageError(`${token.rawName} takes no value, got ${JSON.stringify(token.value)}.`)
  const swallowsFlag = token.inlineValue !== true && /^-./.test(token.value ?? '')
  if (flag.type === 'string' && (token.value === undefined || swallowsFlag))
    throw new UsageError(
      `${token.rawName} expects a value${flag.value === undefined ? '' : `: ${token.rawName} ${flag.value}`}.`,
    )
}

function checkWordCount(name: string, command: Command, words: readonly string[]): void {
  const { min, max } = command.words
  if (words.length >= min && words.length <= max) return
  const what = words.length < min ? 'A word is missing' : `Unexpected ${JSON.stringify(words[max])}`
  throw new UsageError(`${what}. Usage: cofferdam ${name} ${command.usage}`.trim())
}

/** The single value of a string flag. Undefined when it was not given. */
export function textFlag(line: CommandLine, name: string): string | undefined {
  const value = line.flags[name]
  return typeof value === 'string' ? value : undefined
}

/** All values of a repeatable flag. */
export function textFlags(line: CommandLine, name: string): string[] {
  const value = line.flags[name]
  return Array.isArray(value) ? value : []
}

/** Whether a boolean flag was given. */
export const hasFlag = (line: CommandLine, name: string): boolean => line.flags[name] === true

/** A whole number between bounds. Throws `UsageError`. */
export function numberFlag(
  line: CommandLine,
  name: string,
  bounds: { min: number; max: number; whole?: boolean },
): number | undefined {
  const text = textFlag(line, name)
  if (text === undefined) return undefined
  const value = Number(text)
  const whole = bounds.whole ?? true
  const fits =
    text.trim() !== '' && value >= bounds.min && value <= bounds.max && (!whole || Number.isInteger(value))
  if (!fits)
    throw new UsageError(
      `--${name} expects a ${whole ? 'whole ' : ''}number from ${bounds.min} to ${bounds.max}, got ` +
        `${JSON.stringify(text)}.`,
    )
  return value
}

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** `500ms`, `30s`, `2m`, `1h`, or plain seconds, as milliseconds. Throws `UsageError`. */
export function durationFlag(line: CommandLine, name: string): number | undefined {
  const text = textFlag(line, name)
  if (text === undefined) return undefined
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text.trim())
  const unit = UNITS[match?.[2] ?? 's']
  if (match?.[1] === undefined || unit === undefined)
    throw new UsageError(
      `--${name} expects a duration such as 500ms, 30s or 2m, got ${JSON.stringify(text)}.`,
    )
  return Math.round(Number(match[1]) * unit)
}

/** What a verb of a command does, such as `list` of `cofferdam tenant list`. */
export interface Verb<Run> {
  /** The words after the verb. A word in brackets is optional. */
  usage: string
  run: Run
}

/** The usage of a command: all its verbs. */
export const verbUsage = (verbs: Readonly<Record<string, Verb<unknown>>>): string =>
  Object.entries(verbs)
    .map(([name, { usage }]) => `${name} ${usage}`.trim())
    .join(' | ')

/** The verb that the first word names, with the other words. Throws `UsageError`. */
export function findVerb<Run>(
  command: string,
  verbs: Readonly<Record<string, Verb<Run>>>,
  [name = '', ...words]: readonly string[],
): { run: Run; words: readonly string[] } {
  const verb = Object.hasOwn(verbs, name) ? verbs[name] : undefined
  if (verb === undefined) {
    const nearest = nearestName(name, Object.keys(verbs))
    const hint = nearest === null ? `See cofferdam ${command} --help.` : `Did you mean ${nearest}?`
    throw new UsageError(`cofferdam ${command} does not know ${JSON.stringify(name)}. ${hint}`)
  }
  const known = verb.usage
    .replace(' [flags]', '')
    .split(' ')
    .filter((word) => word !== '')
  const needed = known.filter((word) => !word.startsWith('['))
  if (words.length < needed.length || words.length > known.length)
    throw new UsageError(`Usage: cofferdam ${command} ${name} ${verb.usage}`.trimEnd())
  return { run: verb.run, words }
}

export const listOf = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')

export const withoutUndefined = (fields: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

/** The first word as an execution ID. Throws `UsageError`. */
export function executionIdOf(line: CommandLine): ExecutionId {
  const word = line.words[0] ?? ''
  const id = executionIdSchema.safeParse(word)
  if (!id.success)
    throw new UsageError(
      `${JSON.stringify(word)} is not an execution id: ${id.error.issues[0]?.message ?? ''}.`,
    )
  return id.data
}
