import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path, { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Command, CommandLine } from '../command.ts'
import { settingsFor } from '../double-settings.ts'
import { hasFlag, numberFlag, textFlag } from '../parse-command-line.ts'
import { requireFreePort } from '../private-servers.ts'
import { UsageError } from '../usage-error.ts'

/** An emulator that `cofferdam double` starts. */
interface Double {
  summary: string
  /** Flags that are required, and flags that are allowed. */
  needs: readonly string[]
  takes: readonly string[]
  /** Where its `main.ts` is, below the root. */
  folder: string
  /** The kind of service that it emulates. The first line that it prints is JSON, except for a mirror. */
  kind: 'vendor' | 'mirror' | 'control-plane' | 'issuer' | 'programs'
}

const vendor = (name: string, summary: string, ...takes: string[]): Double => ({
  summary,
  needs: [],
  takes,
  folder: `libs/backends/${name}/double`,
  kind: 'vendor',
})
const mirror = (name: string, summary: string): Double => ({
  summary,
  needs: ['dir'],
  takes: [],
  folder: `infra/doubles/${name}`,
  kind: 'mirror',
})

const DOUBLES: Record<string, Double> = {
  agentcore: vendor('agentcore', 'Amazon Bedrock AgentCore Code Interpreter'),
  azure: vendor('azure', 'Azure dynamic sessions: interpreter pools and custom containers'),
  e2b: vendor('e2b', 'E2B: control API and sandboxes'),
  kubernetes: vendor('kubernetes', 'an API server with Agent Sandbox, whose pods run here', 'runtime'),
  firecracker: {
    summary: 'Firecracker and its jailer, as two programs in a folder',
    needs: ['dir'],
    takes: ['machines'],
    folder: 'infra/doubles/firecracker',
    kind: 'programs',
  },
  'managed-agents': {
    summary: 'Anthropic Managed Agents: the work queue of a self-hosted environment, and an agent',
    needs: [],
    takes: ['chat'],
    folder: 'infra/doubles/managed-agents',
    kind: 'control-plane',
  },
  npm: mirror('npm', 'an npm registry over a folder of packages'),
  oauth: {
    summary: 'an OAuth issuer that approves everybody, for logins at /mcp',
    needs: [],
    takes: ['tenant'],
    folder: 'infra/doubles/oauth',
    kind: 'issuer',
  },
  pypi: mirror('pypi', 'a Python package index over a folder of wheels'),
}
const RUNTIMES = ['cofferdam', 'sandboxd', 'python-runtime-sandbox']

export const command: Command = {
  usage: 'NAME',
  details:
    'Starts a local emulator of a cloud service, until Ctrl-C. Use it to try a backend, the dispatcher or ' +
    'the package proxy,\n' +
    'without an account. The first line is its address, as JSON for all but npm and pypi. Without --json, ' +
    'the settings that connect a fleet\n' +
    'follow. They name files with keys, which are removed when the emulator ends.\n\n' +
    Object.entries(DOUBLES)
      .map(([name, { summary }]) => `  ${name.padEnd(16)}${summary}`)
      .join('\n'),
  flags: {
    port: { type: 'string', value: 'N', description: 'port on 127.0.0.1 (default: any free one)' },
    dir: {
      type: 'string',
      value: 'FOLDER',
      description: 'npm and pypi: the packages to serve; firecracker: where the programs go',
    },
    runtime: {
      type: 'string',
      value: 'NAME',
      description:
        'kubernetes: what the pods’ image runs, cofferdam (default), sandboxd or python-runtime-sandbox',
    },
    tenant: { type: 'string', value: 'ID', description: 'oauth: the tenant of its tokens (default: demo)' },
    machines: {
      type: 'boolean',
      description: 'firecracker: machines of QEMU, which is emulated, in the place of a process',
    },
    chat: {
      type: 'boolean',
      description: 'managed-agents: send each line of stdin to a session, and print its answer',
    },
  },
  words: { min: 1, max: 1 },
  examples: [
    'cofferdam double e2b --port 3900',
    'cofferdam double managed-agents --chat',
    'cofferdam double pypi --dir wheels',
    'cofferdam double firecracker --dir /srv/fc-double --machines',
    'cofferdam double oauth --port 9400',
  ],
  async run({ stop, terminal }, line) {
    const { name, double, port, given } = asked(line)
    await requireFreePort('127.0.0.1', port, 'The double')
    const isChat = hasFlag(line, 'chat')
    if (isChat && terminal.json)
      throw new UsageError('--chat prints text, so it cannot be combined with --json.')
    // In the published package, all sources are JavaScript.
    const main = `../../../../${double.folder}/main${path.extname(import.meta.url)}`
    const child = spawn(process.execPath, [fileURLToPath(new URL(main, import.meta.url)), ...given], {
      stdio: [isChat ? 'inherit' : 'ignore', 'pipe', 'inherit'],
    })
    const onStop = (): void => void child.kill('SIGTERM')
    stop.addEventListener('abort', onStop, { once: true })
    const ended = once(child, 'exit') as Promise<[number | null]>
    const keys = mkdtempSync(join(tmpdir(), 'cofferdam-double-keys-'))
    try {
      // An emulator prints one line. When it cannot start, it prints none and reports that on stderr.
      const printed = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
      const { value: said } = await printed.next()
      if (typeof said === 'string') {
        const isJson = double.kind !== 'mirror'
        terminal.value(isJson ? JSON.parse(said) : { double: name, url: said })
        terminal.line(said)
        if (isJson && !terminal.json) terminal.lines(settingsFor(said, runtimeOf(line), keys))
      }
      // What a sandbox printed must not control the terminal.
      for await (const text of printed) terminal.program('stdout', `${text}\n`)
      return (await ended)[0] ?? 0
    } finally {
      child.kill('SIGTERM')
      stop.removeEventListener('abort', onStop)
      rmSync(keys, { recursive: true, force: true })
    }
  },
}

const runtimeOf = (line: CommandLine): string => textFlag(line, 'runtime') ?? 'cofferdam'

/** The emulator that the command line names, and that emulator's own command line. Throws `UsageError`. */
function asked(line: CommandLine): { name: string; double: Double; port: number; given: string[] } {
  const [name = ''] = line.words
  const double = Object.entries(DOUBLES).find(([known]) => known === name)?.[1]
  if (double === undefined)
    throw new UsageError(
      `There is no double of "${name}". Known doubles: ${Object.keys(DOUBLES).join(', ')}.`,
    )
  const port = numberFlag(line, 'port', { min: 0, max: 65_535 }) ?? 0
  const given = ['--port', String(port)]
  for (const flag of ['dir', 'runtime', 'tenant']) {
    const value = textFlag(line, flag)
    if (value === undefined) {
      if (double.needs.includes(flag)) throw new UsageError(`The double of ${name} needs --${flag}.`)
      continue
    }
    if (![...double.needs, ...double.takes].includes(flag))
      throw new UsageError(`The double of ${name} takes no --${flag}.`)
    given.push(`--${flag}`, value)
  }
  for (const flag of ['chat', 'machines']) {
    if (!hasFlag(line, flag)) continue
    if (!double.takes.includes(flag)) throw new UsageError(`The double of ${name} takes no --${flag}.`)
    given.push(`--${flag}`)
  }
  if (!RUNTIMES.includes(runtimeOf(line)))
    throw new UsageError(`--runtime expects ${RUNTIMES.join(', ')}, got ${JSON.stringify(runtimeOf(line))}.`)
  return { name, double, port, given }
}
