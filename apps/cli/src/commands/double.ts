import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Command } from '../command.ts'
import { UsageError } from '../usage-error.ts'

/** Folders of infra/doubles with a `main.ts`. */
const DOUBLES: Record<string, { summary: string; needs: readonly string[]; takes?: readonly string[] }> = {
  agentcore: { summary: 'Amazon Bedrock AgentCore Code Interpreter', needs: [] },
  azure: { summary: 'Azure dynamic sessions: interpreter pools and custom containers', needs: [] },
  e2b: { summary: 'E2B: control API and sandboxes', needs: [] },
  kubernetes: {
    summary: 'an API server with Agent Sandbox, whose pods run here',
    needs: [],
    takes: ['runtime'],
  },
  npm: { summary: 'an npm registry over a folder of packages', needs: ['dir'] },
  pypi: { summary: 'a Python package index over a folder of wheels', needs: ['dir'] },
}

export const command: Command = {
  usage: 'NAME',
  details:
    'Starts a loopback server that speaks a cloud service’s documented wire, until Ctrl-C: to try a backend, or the package\n' +
    'proxy, without an account. Prints one JSON line with its address first.\n\n' +
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
  async run({ stop }, { flags, words: [name = ''] }) {
    const double = DOUBLES[name]
    if (double === undefined)
      throw new UsageError(`There is no double of "${name}". Known are: ${Object.keys(DOUBLES).join(', ')}.`)
    for (const flag of double.needs)
      if (flags[flag] === undefined) throw new UsageError(`The double of ${name} needs --${flag}.`)
    const main = fileURLToPath(new URL(`../../../../infra/doubles/${name}/main.ts`, import.meta.url))
    const given = ['port', ...double.needs, ...(double.takes ?? [])].flatMap((flag) => {
      const value = flags[flag]
      return typeof value === 'string' ? [`--${flag}`, value] : []
    })
    const child = spawn(process.execPath, [main, ...given], { stdio: 'inherit' })
    const onStop = (): void => void child.kill('SIGTERM')
    stop.addEventListener('abort', onStop, { once: true })
    const [code] = (await once(child, 'exit')) as [number | null]
    stop.removeEventListener('abort', onStop)
    return code ?? 0
  },
}
