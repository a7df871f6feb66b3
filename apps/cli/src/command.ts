/** What a command is: its words for --help, its flags, and what it does. */
import type { Readable } from 'node:stream'
import type { CliConfig } from './config.ts'
import type { Terminal } from './terminal.ts'

export interface Flag {
  type: 'string' | 'boolean'
  short?: string
  /** May be given more than once. */
  multiple?: boolean
  /** Placeholder of the value in --help, e.g. `MS`. */
  value?: string
  description: string
}

export type FlagValues = Readonly<Record<string, string | boolean | string[] | undefined>>

/** A command line after parsing: flags by name, words in order, and what stood behind `--`. */
export interface CommandLine {
  flags: FlagValues
  words: string[]
  rest: string[]
}

export interface Context {
  config: CliConfig
  terminal: Terminal
  stdin: Readable
  /** Directory that relative paths of the command line start from. */
  cwd: string
  /** Aborts at the first Ctrl-C or SIGTERM: finish in order. A second one ends the process at once. */
  stop: AbortSignal
}

export interface Command {
  /** Words after `cofferdam NAME`, e.g. `FILE [-- ARGV…]`. */
  usage: string
  /** A few sentences under the usage line. */
  details?: string
  flags: Readonly<Record<string, Flag>>
  /** How many words it takes; what stands behind `--` does not count. */
  words: { min: number; max: number }
  /** Whether `-- argv…` is understood. */
  takesRest?: boolean
  examples: readonly string[]
  /** Resolves with the exit status. */
  run(context: Context, line: CommandLine): Promise<number>
}

/** Flags that every command has. */
export const COMMON_FLAGS = {
  json: { type: 'boolean', description: 'print JSON for machines, one value on stdout' },
  help: { type: 'boolean', short: 'h', description: 'explain this command' },
} as const satisfies Record<string, Flag>

/** Flags of the commands that talk to the API. */
export const API_FLAGS = {
  url: {
    type: 'string',
    value: 'URL',
    description: 'API to talk to (default: COFFERDAM_URL or a local `up`)',
  },
} as const satisfies Record<string, Flag>
