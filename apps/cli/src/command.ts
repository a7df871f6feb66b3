/** A command: its help texts, its flags, and what it does. */
import type { Readable } from 'node:stream'
import type { CliConfig } from './config.ts'
import type { Terminal } from './terminal.ts'

export interface Flag {
  type: 'string' | 'boolean'
  short?: string
  /** Whether it may be given more than once. */
  multiple?: boolean
  /** Placeholder of the value in --help, such as `MS`. */
  value?: string
  description: string
}

export type FlagValues = Readonly<Record<string, string | boolean | string[] | undefined>>

/** A parsed command line: flags by name, words in order, and everything after `--`. */
export interface CommandLine {
  flags: FlagValues
  words: string[]
  rest: string[]
}

export interface Context {
  config: CliConfig
  terminal: Terminal
  stdin: Readable
  /** Base directory of relative paths. */
  cwd: string
  /** Aborts at the first Ctrl-C or SIGTERM, to finish in order. A second one ends the process at once. */
  stop: AbortSignal
}

export interface Command {
  /** Words after `cofferdam NAME`, such as `FILE [-- ARGV…]`. */
  usage: string
  /** A few sentences under the usage line. */
  details?: string
  flags: Readonly<Record<string, Flag>>
  /** How many words it takes, without those after `--`. */
  words: { min: number; max: number }
  /** Whether `-- argv…` is accepted. */
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
    description: 'address of the API (default: COFFERDAM_URL, else the local `up`)',
  },
} as const satisfies Record<string, Flag>

/** An expected failure. The message is shown as it is, and the exit status is 1. */
export class CommandFailure extends Error {
  /** The code that `--json` prints with the message: `unreachable` when no API answers, else `failed`. */
  readonly code: 'unreachable' | 'failed'

  constructor(message: string, options: { cause?: unknown; code?: CommandFailure['code'] } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'CommandFailure'
    this.code = options.code ?? 'failed'
  }
}

/** The code of a system error, such as `ENOENT`. Empty for any other error. */
export const systemCode = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : ''

export function untilStopped(stop: AbortSignal): Promise<void> {
  if (stop.aborted) return Promise.resolve()
  const { promise, resolve } = Promise.withResolvers<void>()
  stop.addEventListener('abort', () => resolve(), { once: true })
  return promise
}
