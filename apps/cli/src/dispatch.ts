/** From argument words to an exit status: find the command, parse its words, run it, tell failures. */
import type { Readable } from 'node:stream'
import { nearestName } from '@cofferdam/config'
import { isCofferdamError } from '@cofferdam/contract'
import { CommandFailure } from './command-failure.ts'
import { COMMANDS } from './commands.ts'
import { loadConfig, type Environment } from './config.ts'
import { EXIT } from './exit-status.ts'
import { commandHelp, overview } from './help.ts'
import { parseCommandLine } from './parse-command-line.ts'
import { createTerminal, type Output } from './terminal.ts'
import { UsageError } from './usage-error.ts'

export interface Surroundings {
  args: readonly string[]
  environment: Environment
  cwd: string
  stdin: Readable
  stdout: Output
  stderr: Output
  stop: AbortSignal
}

/** Runs one command line; resolves with the exit status and never rejects. */
export async function dispatch(around: Surroundings): Promise<number> {
  const [name = '--help', ...args] = around.args
  const json = args.includes('--json')
  const terminal = createTerminal({ stdout: around.stdout, stderr: around.stderr, json })
  try {
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
    return tell(error, around)
  }
}

function unknownCommand(name: string): UsageError {
  const nearest = nearestName(name, Object.keys(COMMANDS))
  const hint = nearest === null ? 'See cofferdam --help.' : `Did you mean cofferdam ${nearest}?`
  return new UsageError(
    name.startsWith('-')
      ? `The command comes first. See cofferdam --help.`
      : `There is no command ${name}. ${hint}`,
  )
}

/** Says what went wrong on stderr, for humans or (with --json) for machines, and picks the exit status. */
function tell(error: unknown, around: Surroundings): number {
  const stopped = around.stop.aborted && error instanceof Error && error.name === 'AbortError'
  if (stopped) return EXIT.cancelled
  const usage = error instanceof UsageError || (isCofferdamError(error) && error.code === 'config_invalid')
  if (around.args.includes('--json')) {
    const foreseen = isCofferdamError(error) || error instanceof CommandFailure
    const code = foreseen ? error.code : usage ? 'usage' : 'internal'
    const details = isCofferdamError(error) ? error.details : {}
    around.stderr.write(`${JSON.stringify({ error: { code, message: messageOf(error), details } })}\n`)
  } else {
    around.stderr.write(`cofferdam: ${messageOf(error)}\n`)
    const hint = isCofferdamError(error) ? error.entry.hint : ''
    if (hint !== '' && !usage) around.stderr.write(`  ${hint}\n`)
  }
  return usage ? EXIT.usage : EXIT.platform
}

/** Foreseen failures speak for themselves; a stack is shown only for what nobody foresaw. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const foreseen = ['UsageError', 'CommandFailure', 'CofferdamError', 'EmbeddedServerError'].includes(
    error.name,
  )
  return foreseen ? error.message : (error.stack ?? error.message)
}
