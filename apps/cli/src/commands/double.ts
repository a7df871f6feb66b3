import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Command, CommandLine } from '../command.ts'
import { settingsFor } from '../double-settings.ts'
import { requireFreePort } from '../free-port.ts'
import { numberFlag, textFlag } from '../parse-command-line.ts'
import { UsageError } from '../usage-error.ts'

interface Double {
  summary: string
  /** Flags that must be given, and those that may be. */
  needs: readonly string[]
  takes: readonly string[]
  /** A backend runs programs there. */
  isVendor: boolean
}

const vendor = (summary: string, ...takes: string[]): Double => ({
  summary,
  needs: [],
  takes,
  isVendor: true,
})
const mirror = (summary: string): Double => ({ summary, needs: ['dir'], takes: [], isVendor: false })

/** Folders with a `main.ts`: a vendor's is `libs/backends/NAME/double`, a mirror's `infra/doubles/NAME`. */
const DOUBLES: Record<string, Double> = {
  agentcore: vendor('Amazon Bedrock AgentCore Code Interpreter'),
  azure: vendor('Azure dynamic sessions: interpreter pools and custom containers'),
  e2b: vendor('E2B: control API and sandboxes'),
  kubernetes: vendor('an API server with Agent Sandbox, whose pods run here', 'runtime'),
  npm: mirror('an npm registry over a folder of packages'),
  pypi: mirror('a Python package index over a folder of wheels'),
}
const RUNTIMES = ['cofferdam', 'sandboxd', 'python-runtime-sandbox']

export const command: Command = {
  usage: 'NAME',
  details:
    'Starts a loopback server that speaks a cloud service’s documented wire, until Ctrl-C: to try a backend, or the package\n' +
    'proxy, without an account. Prints one line with its address first, JSON where it is a backend’s; then what to write into\n' +
    'cofferdam.config.yaml for that backend, with keys in files that are gone when it ends (not with --json).\n\n' +
    Object.entries(DOUBLES)
      .map(([name, { summary }]) => `  ${name.padEnd(12)}${summary}`)
      .join('\n'),
  flags: {
    port: { type: 'string', value: 'N', description: 'port on 127.0.0.1 (default: any free one)' },
    dir: { type: 'string', value: 'FOLDER', description: 'npm and pypi: the packages to serve' },
    runtime: {
      type: 'string',
      value: 'NAME',
      description:
        'kubernetes: what the pods’ image runs, cofferdam (default), sandboxd or python-runtime-sandbox',
    },
  },
  words: { min: 1, max: 1 },
  examples: ['cofferdam double e2b --port 3900', 'cofferdam double pypi --dir wheels'],
  async run({ stop, terminal }, line) {
    const { name, double, port, given } = asked(line)
    await requireFreePort('127.0.0.1', port, 'The double')
    const folder = double.isVendor ? `libs/backends/${name}/double` : `infra/doubles/${name}`
    const main = fileURLToPath(new URL(`../../../../${folder}/main.ts`, import.meta.url))
    const child = spawn(process.execPath, [main, ...given], { stdio: ['ignore', 'pipe', 'inherit'] })
    const onStop = (): void => void child.kill('SIGTERM')
    stop.addEventListener('abort', onStop, { once: true })
    const ended = once(child, 'exit') as Promise<[number | null]>
    const keys = mkdtempSync(join(tmpdir(), 'cofferdam-double-keys-'))
    try {
      // One line is all that a double prints; none when it could not start, which it says on stderr.
      const { value: said } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
      if (typeof said === 'string') {
        terminal.value(double.isVendor ? JSON.parse(said) : { double: name, url: said })
        terminal.line(said)
        if (double.isVendor && !terminal.json)
          for (const text of settingsFor(said, runtimeOf(line), keys)) terminal.line(text)
      }
      return (await ended)[0] ?? 0
    } finally {
      child.kill('SIGTERM')
      stop.removeEventListener('abort', onStop)
      rmSync(keys, { recursive: true, force: true })
    }
  },
}

const runtimeOf = (line: CommandLine): string => textFlag(line, 'runtime') ?? 'cofferdam'

/** Which double, and its own command line. Throws `UsageError`. */
function asked(line: CommandLine): { name: string; double: Double; port: number; given: string[] } {
  const [name = ''] = line.words
  const double = Object.entries(DOUBLES).find(([known]) => known === name)?.[1]
  if (double === undefined)
    throw new UsageError(`There is no double of "${name}". Known are: ${Object.keys(DOUBLES).join(', ')}.`)
  const port = numberFlag(line, 'port', { min: 0, max: 65_535 }) ?? 0
  const given = ['--port', String(port)]
  for (const flag of ['dir', 'runtime']) {
    const value = textFlag(line, flag)
    if (value === undefined) {
      if (double.needs.includes(flag)) throw new UsageError(`The double of ${name} needs --${flag}.`)
      continue
    }
    if (![...double.needs, ...double.takes].includes(flag))
      throw new UsageError(`The double of ${name} takes no --${flag}.`)
    given.push(`--${flag}`, value)
  }
  if (!RUNTIMES.includes(runtimeOf(line)))
    throw new UsageError(`--runtime expects ${RUNTIMES.join(', ')}, got ${JSON.stringify(runtimeOf(line))}.`)
  return { name, double, port, given }
}
