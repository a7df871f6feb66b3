/** Flags of `cofferdam tenant` for what programs may reach, fetch and name, and for templates. */
import type { CommandLine, Command } from './command.ts'
import { numberFlag, textFlag } from './parse-command-line.ts'
import { UsageError } from './usage-error.ts'

export const RULE_FLAGS: Command['flags'] = {
  network: { type: 'string', value: 'none|public|HOSTS', description: 'the most that programs may reach' },
  'allow-commands': {
    type: 'string',
    value: 'LIST|any',
    description: 'the only programs that commands may name',
  },
  'block-commands': { type: 'string', value: 'LIST|none', description: 'programs that no command may name' },
  'pypi-packages': {
    type: 'string',
    value: 'LIST|none',
    description: 'Python packages that install may fetch',
  },
  'npm-packages': { type: 'string', value: 'LIST|none', description: 'npm packages that install may fetch' },
  'encrypt-outputs': {
    type: 'string',
    value: 'true|false',
    description: 'store outputs and artifacts encrypted',
  },
  environment: {
    type: 'string',
    value: 'NAME|off',
    description: 'set-template: where its programs run; off: the template does not opt in',
  },
}

/** A list of an earlier policy that a flag changes one half of. */
interface Now {
  commands: { allow: string[] | null; block: string[] }
  packages: { pypi: string[]; npm: string[] }
}

/** The rules that the flags name. Halves of `commands` and `packages` that no flag names stay as they are in `now`. */
export function rulesOf(line: CommandLine, now?: Now): Record<string, unknown> {
  const allow = textFlag(line, 'allow-commands')
  const block = listFlag(line, 'block-commands')
  const pypi = listFlag(line, 'pypi-packages')
  const npm = listFlag(line, 'npm-packages')
  return {
    network: networkFlag(line),
    encrypt_outputs: switchFlag(line, 'encrypt-outputs'),
    commands:
      allow === undefined && block === undefined
        ? undefined
        : {
            allow:
              allow === undefined ? (now?.commands.allow ?? null) : allow === 'any' ? null : listOf(allow),
            block: block ?? now?.commands.block ?? [],
          },
    packages:
      pypi === undefined && npm === undefined
        ? undefined
        : { pypi: pypi ?? now?.packages.pypi ?? [], npm: npm ?? now?.packages.npm ?? [] },
  }
}

/** The `sandbox` of a template that the flags describe; null when it does not opt in. */
export function templateOf(line: CommandLine): Record<string, unknown> | null {
  const environment = textFlag(line, 'environment')
  if (environment === undefined)
    throw new UsageError('set-template needs --environment NAME, or --environment off.')
  if (environment === 'off') return null
  const settings = {
    environment,
    network: networkFlag(line),
    min_isolation: textFlag(line, 'min-isolation'),
    retention_days: numberFlag(line, 'retention-days', { min: 1, max: 180 }),
    encrypt_outputs: switchFlag(line, 'encrypt-outputs'),
  }
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined))
}

/** A flag that is `true` or `false`; undefined when it is not there. Throws UsageError for anything else. */
export function switchFlag(line: CommandLine, name: string): boolean | undefined {
  const text = textFlag(line, name)
  if (text !== undefined && !['true', 'false'].includes(text))
    throw new UsageError(`--${name} expects true or false, got ${JSON.stringify(text)}.`)
  return text === undefined ? undefined : text === 'true'
}

function networkFlag(line: CommandLine): unknown {
  const text = textFlag(line, 'network')
  return text === undefined || text === 'none' || text === 'public' ? text : { allow: listOf(text) }
}

function listFlag(line: CommandLine, name: string): string[] | undefined {
  const text = textFlag(line, name)
  return text === undefined ? undefined : text === 'none' ? [] : listOf(text)
}

const listOf = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
