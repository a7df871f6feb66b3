/** Micro-units as people read and write them. */
import { MICRO } from '@cofferdam/contract'
import type { CommandLine } from './command.ts'
import { textFlag } from './parse-command-line.ts'
import { UsageError } from './usage-error.ts'

/** `12.5` for 12,500,000. */
export const showCost = (micro: number): string => String(micro / MICRO)

/** The micro-units that a flag names in units, at most six decimals; null for `default`, undefined when it is not there. */
export function costFlag(line: CommandLine, name: string): number | null | undefined {
  const text = textFlag(line, name)
  if (text === undefined) return undefined
  if (text === 'default') return null
  const match = /^(\d{1,10})(?:\.(\d{1,6}))?$/.exec(text)
  if (match === null)
    throw new UsageError(`--${name} expects an amount such as 12.5, or default, got ${JSON.stringify(text)}.`)
  return Number(match[1]) * MICRO + Number((match[2] ?? '').padEnd(6, '0'))
}
