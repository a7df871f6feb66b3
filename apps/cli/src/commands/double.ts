import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parse } from '@cofferdam/contract'
import { z } from 'zod'
import type { Command, CommandLine } from '../command.ts'
import { numberFlag, textFlag } from '../parse-command-line.ts'
import { requireFreePort } from '../private-servers.ts'
import { UsageError } from '../usage-error.ts'

/** An emulator that `cofferdam double` starts. */
interface Double {
  summary: string
  /** Flags that are required, and flags that are allowed. */
  needs: readonly string[]
  takes: readonly string[]
  /** Whether a backend can run programs on it. */
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
    'Starts a local emulator of a cloud service, until Ctrl-C. Use it to try a backend, or the package ' +
    'proxy, without an\n' +
    'account. The first line is its address, as JSON for a backend. Without --json, the lines for ' +
    'cofferdam.config.yaml\n' +
    'follow. They name files with keys, which are removed when the emulator ends.\n\n' +
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
      // An emulator prints one line. When it cannot start, it prints none and reports that on stderr.
      const { value: said } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
      if (typeof said === 'string') {
        terminal.value(double.isVendor ? JSON.parse(said) : { double: name, url: said })
        terminal.line(said)
        if (double.isVendor && !terminal.json) terminal.lines(settingsFor(said, runtimeOf(line), keys))
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

/** The path of Node.js in the emulators' sandboxes (libs/backends/remote/double/jail.ts). */
const NODE = '/opt/node/bin/node'
/** The token that sandboxd expects in the Kubernetes emulator (see its README). */
const SANDBOXD_TOKEN = 'cofferdam-double'

/** The line that each emulator prints first. */
const announcementSchema = z.discriminatedUnion('double', [
  z.object({
    double: z.literal('agentcore'),
    origin: z.string(),
    access_key_id: z.string(),
    secret_access_key: z.string(),
  }),
  z.object({
    double: z.literal('azure'),
    identity_endpoint: z.string(),
    identity_header: z.string(),
    pools: z.object({ python: z.string() }),
  }),
  z.object({ double: z.literal('e2b'), origin: z.string(), api_key: z.string() }),
  z.object({ double: z.literal('kubernetes'), api_server: z.string() }),
])
type Announcement = z.output<typeof announcementSchema>

/** Writes a file and returns its path. */
type Keep = (name: string, text: string) => string

function settingsOf(said: Announcement, runtime: string, keep: Keep): Record<string, unknown> {
  switch (said.double) {
    case 'agentcore': {
      const { access_key_id: id, secret_access_key: secret } = said
      const keys = `[default]\naws_access_key_id = ${id}\naws_secret_access_key = ${secret}\n`
      // The service's own interpreter, which every account has.
      const interpreter = 'aws.codeinterpreter.v1'
      return {
        region: 'us-east-1',
        endpoint: said.origin,
        credentials_file: keep('aws-credentials', keys),
        interpreters: { 'default-public': interpreter, 'internal-only': interpreter },
        node: NODE,
      }
    }
    case 'azure':
      return {
        enabled: true,
        interpreter_endpoint: said.pools.python,
        identifier_secret_file: keep('identifier-secret', 'not a secret: names of sessions at a double'),
        credentials: ['managed-identity'],
        identity_endpoint: said.identity_endpoint,
        identity_header_file: keep('identity-header', said.identity_header),
      }
    case 'e2b':
      return {
        api_key_file: keep('api-key', said.api_key),
        api_url: said.origin,
        sandbox_url: said.origin,
        node: NODE,
      }
    case 'kubernetes': {
      const own = { api_server: said.api_server, token_file: null }
      if (runtime === 'cofferdam') return own
      const token_file = runtime === 'sandboxd' ? keep('sandboxd-token', SANDBOXD_TOKEN) : null
      const foreign = { root: '/home/user', python: '/usr/bin/python3', node: NODE, token_file }
      return { ...own, runtime, foreign }
    }
  }
}

/**
 * The lines to paste into cofferdam.config.yaml for an emulator that printed `line`. Writes keys to files in
 * `folder` that only this user can read. `runtime` is the runtime of the Kubernetes pods.
 */
function settingsFor(line: string, runtime: string, folder: string): string[] {
  const said = parse(announcementSchema, JSON.parse(line))
  const settings = settingsOf(said, runtime, (name, text) => {
    const path = join(folder, name)
    writeFileSync(path, text, { mode: 0o600 })
    return path
  })
  return [
    '# Add to cofferdam.config.yaml in the folder where you run `cofferdam up`:',
    'backends:',
    `  ${said.double}:`,
    // JSON is YAML.
    ...Object.entries(settings).map(([key, value]) => `    ${key}: ${JSON.stringify(value)}`),
    `# Then, in other terminals: npx cofferdam up`,
    `#                           npx cofferdam run examples/hello.py --backend ${said.double}`,
  ]
}
