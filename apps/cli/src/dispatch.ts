/** Runs one command line: finds the command, parses its arguments, runs it, reports failures. */
import { readFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { nearestName } from '@cofferdam/config'
import { isCofferdamError } from '@cofferdam/contract'
import { type Command, CommandFailure, COMMON_FLAGS, type Flag } from './command.ts'
import { COMMANDS } from './commands.ts'
import { type Environment, loadConfig } from './config.ts'
import { EXIT } from './exit-status.ts'
import { parseCommandLine } from './parse-command-line.ts'
import { createTerminal, type Output, type Terminal } from './terminal.ts'
import { UsageError } from './usage-error.ts'

/** The process around a command. Tests pass their own. */
export interface Surroundings {
  args: readonly string[]
  environment: Environment
  cwd: string
  stdin: Readable
  stdout: Output
  stderr: Output
  stop: AbortSignal
}

/** Runs one command line. Resolves with the exit status and never rejects. */
export async function dispatch(around: Surroundings): Promise<number> {
  const [name = '--help', ...args] = around.args
  const json = args.includes('--json')
  const terminal = createTerminal({ stdout: around.stdout, stderr: around.stderr, json })
  try {
    if (['--version', '-V', 'version'].includes(name)) {
      around.stdout.write(`${versionOf()}\n`)
      return EXIT.ok
    }
    if (['--help', '-h', 'help'].includes(name)) {
      const asked = args[0]
      const entry = asked !== undefined && Object.hasOwn(COMMANDS, asked) ? COMMANDS[asked] : undefined
      if (asked === undefined || entry === undefined) around.stdout.write(`${overview(COMMANDS)}\n`)
      else around.stdout.write(`${commandHelp(asked, entry.summary, (await entry.load()).command)}\n`)
      return EXIT.ok
    }
    const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
    if (entry === undefined) throw unknownCommand(name)
    const { command } = await entry.load()
    const line = parseCommandLine(name, command, args)
    if (line.flags['help'] === true) {
      around.stdout.write(`${commandHelp(name, entry.summary, command)}\n`)
      return EXIT.ok
    }
    const config = loadConfig(around.environment)
    return await command.run(
      { config, terminal, stdin: around.stdin, cwd: around.cwd, stop: around.stop },
      line,
    )
  } catch (error) {
    terminal.progress(null)
    return tell(error, around, terminal)
  }
}

/** The version of this package. */
function versionOf(): string {
  const file = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(file) as { version: string }).version
}

function unknownCommand(name: string): UsageError {
  const nearest = nearestName(name, Object.keys(COMMANDS))
  const hint = nearest === null ? 'See cofferdam --help.' : `Did you mean cofferdam ${nearest}?`
  return new UsageError(
    name.startsWith('-')
      ? 'The command must come before its flags. See cofferdam --help.'
      : `There is no command ${name}. ${hint}`,
  )
}

/** Reports a failure on stderr, as text or with --json as JSON. Returns the exit status. */
function tell(error: unknown, around: Surroundings, terminal: Terminal): number {
  const isStopped = around.stop.aborted && error instanceof Error && error.name === 'AbortError'
  if (isStopped) return EXIT.cancelled
  const usage = error instanceof UsageError || (isCofferdamError(error) && error.code === 'config_invalid')
  if (around.args.includes('--json')) {
    const expected = isCofferdamError(error) || error instanceof CommandFailure
    const code = expected ? error.code : usage ? 'usage' : 'internal'
    const details = isCofferdamError(error) ? error.details : {}
    around.stderr.write(`${JSON.stringify({ error: { code, message: messageOf(error), details } })}\n`)
  } else {
    terminal.note(`cofferdam: ${messageOf(error)}`)
    const hint = isCofferdamError(error) ? error.entry.hint : ''
    if (hint !== '' && !usage) terminal.note(`  ${hint}`)
  }
  return usage ? EXIT.usage : EXIT.platform
}

/** The message of an expected failure, or the stack of an unexpected one. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const expected = ['UsageError', 'CommandFailure', 'CofferdamError', 'EmbeddedServerError'].includes(
    error.name,
  )
  return expected ? error.message : (error.stack ?? error.message)
}

const INDENT = '  '

function flagLine(name: string, flag: Flag, width: number): string {
  const short = flag.short === undefined ? '    ' : `-${flag.short}, `
  return `${INDENT}${short}${flagWord(name, flag).padEnd(width)}  ${flag.description}${flag.multiple === true ? ' (repeatable)' : ''}`
}

const flagWord = (name: string, flag: Flag): string =>
  `--${name}${flag.type === 'string' ? ` ${flag.value ?? 'VALUE'}` : ''}`

/** The help of one command. */
function commandHelp(name: string, summary: string, command: Command): string {
  const flags = Object.entries<Flag>({ ...command.flags, ...COMMON_FLAGS })
  const width = Math.max(...flags.map(([flag, facts]) => flagWord(flag, facts).length))
  return [
    `cofferdam ${name}: ${summary}`,
    '',
    `Usage: cofferdam ${name} ${command.usage}`.trimEnd(),
    ...(command.details === undefined ? [] : ['', command.details]),
    '',
    'Flags:',
    ...flags.map(([flag, facts]) => flagLine(flag, facts, width)),
    '',
    'Examples:',
    ...command.examples.map((example) => INDENT + example),
  ].join('\n')
}

/** The list of all commands. */
function overview(commands: Readonly<Record<string, { summary: string }>>): string {
  const width = Math.max(...Object.keys(commands).map((name) => name.length))
  return [
    'cofferdam runs agent-written code in sandboxes: fair between tenants, limited by caps, and audited.',
    '',
    'Usage: cofferdam COMMAND [arguments] [flags]',
    '',
    'Commands:',
    ...Object.entries(commands).map(([name, { summary }]) => `${INDENT}${name.padEnd(width)}  ${summary}`),
    '',
    'See cofferdam COMMAND --help for one command, and cofferdam --version. Exit status: the program’s own for run and logs --follow;',
    '124 timeout, 137 out of memory, 130 cancelled, 1 platform failure, 2 wrong usage.',
  ].join('\n')
}
