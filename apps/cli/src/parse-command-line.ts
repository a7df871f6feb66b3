/** Turns argument words into flags and words, with a hint at the nearest name for what is not known. */
import { parseArgs } from 'node:util'
import { nearestName } from '@cofferdam/config'
import { COMMON_FLAGS, type Command, type CommandLine, type Flag } from './command.ts'
import { UsageError } from './usage-error.ts'

/** Parses what stands behind the command's name. Throws `UsageError`. */
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
    // Not strict: its errors know no nearest name. What it would refuse is refused below.
    strict: false,
    tokens: true,
  })
  for (const token of tokens) if (token.kind === 'option') checkOption(name, flags, token)
  if (cut >= 0 && command.takesRest !== true)
    throw new UsageError(`cofferdam ${name} takes nothing behind --.`)
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
  const what = words.length < min ? 'Something is missing' : `Unexpected ${JSON.stringify(words[max])}`
  throw new UsageError(`${what}. Usage: cofferdam ${name} ${command.usage}`.trim())
}

/** The single value of a string flag; undefined when it was not given. */
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
      `--${name} expects a ${whole ? 'whole ' : ''}number from ${bounds.min} to ${bounds.max}, got ${JSON.stringify(text)}.`,
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
