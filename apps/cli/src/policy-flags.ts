/** Flags of `cofferdam tenant` that describe a tenant's policy and its templates. */
import { DEFAULT_LIMITS, ISOLATIONS, KEEP_PROGRAM, MAX_LIMITS, type TenantPolicy } from '@cofferdam/contract'
import { networkOf } from './build-request.ts'
import type { CommandLine, Command } from './command.ts'
import { listOf, numberFlag, textFlag, withoutUndefined } from './parse-command-line.ts'
import { UsageError } from './usage-error.ts'

/** In the order of --help. */
export const POLICY_FLAGS: Command['flags'] = {
  enabled: { type: 'string', value: 'true|false', description: 'whether its code may run at all' },
  'min-isolation': {
    type: 'string',
    value: 'LEVEL',
    description: `the weakest isolation that is used: ${ISOLATIONS.join(' < ')}`,
  },
  'retention-days': {
    type: 'string',
    value: 'N',
    description: 'how long audit rows and outputs are kept, 1 to 180 days',
  },
  'output-retention-days': {
    type: 'string',
    value: 'N',
    description:
      'how long full outputs and artifacts are kept if shorter, 1 to 180 days (off: as long as rows)',
  },
  tier: { type: 'string', value: 'NAME', description: 'standard, regulated or hipaa' },
  network: { type: 'string', value: 'none|public|HOSTS', description: 'the most that programs may reach' },
  'allow-commands': {
    type: 'string',
    value: 'LIST|any',
    description: 'the only programs that commands may run',
  },
  'block-commands': { type: 'string', value: 'LIST|none', description: 'programs that no command may run' },
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
  'max-artifact-bytes': {
    type: 'string',
    value: 'N',
    description: 'the highest limit for one artifact that a request may set',
  },
  'max-artifacts-total-bytes': {
    type: 'string',
    value: 'N',
    description: 'the highest limit for all artifacts together that a request may set',
  },
  'max-artifact-count': {
    type: 'string',
    value: 'N',
    description: 'the highest number of artifacts that a request may set',
  },
  'require-template': {
    type: 'string',
    value: 'true|false',
    description: 'refuse executions without a template',
  },
  'bind-agents': {
    type: 'string',
    value: 'AGENT=TEMPLATE,…|none',
    description: 'agents that always run under a template, whatever the request names',
  },
  'run-sessions': {
    type: 'string',
    value: 'true|false',
    description: 'let executions of one agent and run share a session',
  },
  'keep-program': {
    type: 'string',
    value: KEEP_PROGRAM.join('|'),
    description: 'which programs are kept at their end, so that `rerun` can run them again',
  },
  'allow-emulation': {
    type: 'string',
    value: 'true|false',
    description: 'let programs run in machines that are only emulated, which isolate nothing',
  },
  environment: {
    type: 'string',
    value: 'NAME|off',
    description: 'set-template: where its programs run; off: the template does not opt in',
  },
}

const DAYS = { min: 1, max: 180 }

/**
 * Policy fields with two parts, such as allow and block of commands. A flag for one part leaves the other
 * unchanged.
 */
type Halves = Pick<TenantPolicy, 'commands' | 'packages' | 'templates'>

/** Whether the flags name a part of such a field. `policyOf` then needs the current policy. */
export const namesHalf = (line: CommandLine): boolean =>
  [
    'allow-commands',
    'block-commands',
    'pypi-packages',
    'npm-packages',
    'require-template',
    'bind-agents',
  ].some((name) => textFlag(line, name) !== undefined)

/**
 * The policy fields that the flags name, in the API's form. If flags name only some parts of `commands`,
 * `packages` or `templates`, the rest is from `now` (default: a new tenant's policy). Throws `UsageError`.
 */
export function policyOf(line: CommandLine, now?: Halves): Record<string, unknown> {
  return withoutUndefined({
    sandbox_enabled: switchFlag(line, 'enabled'),
    min_isolation: textFlag(line, 'min-isolation'),
    retention_days: numberFlag(line, 'retention-days', DAYS),
    output_retention_days:
      textFlag(line, 'output-retention-days') === 'off'
        ? null
        : numberFlag(line, 'output-retention-days', DAYS),
    compliance_tier: textFlag(line, 'tier'),
    network: networkFlag(line),
    encrypt_outputs: switchFlag(line, 'encrypt-outputs'),
    max_artifact_bytes: artifactFlag(line, 'artifact_bytes'),
    max_artifacts_total_bytes: artifactFlag(line, 'artifacts_total_bytes'),
    max_artifact_count: artifactFlag(line, 'artifact_count'),
    keep_program: textFlag(line, 'keep-program'),
    run_sessions: switchFlag(line, 'run-sessions'),
    allow_emulation: switchFlag(line, 'allow-emulation'),
    commands: commandsFlags(line, now?.commands),
    packages: packagesFlags(line, now?.packages),
    templates: templatesFlags(line, now?.templates),
  })
}

function artifactFlag(
  line: CommandLine,
  limit: 'artifact_bytes' | 'artifacts_total_bytes' | 'artifact_count',
): number | undefined {
  const bounds = { min: DEFAULT_LIMITS[limit], max: MAX_LIMITS[limit] }
  return numberFlag(line, `max-${limit.replaceAll('_', '-')}`, bounds)
}

function commandsFlags(line: CommandLine, now?: Halves['commands']): Halves['commands'] | undefined {
  const allow = textFlag(line, 'allow-commands')
  const block = listFlag(line, 'block-commands')
  if (allow === undefined && block === undefined) return undefined
  return {
    allow: allow === undefined ? (now?.allow ?? null) : allow === 'any' ? null : listOf(allow),
    block: block ?? now?.block ?? [],
  }
}

function packagesFlags(line: CommandLine, now?: Halves['packages']): Halves['packages'] | undefined {
  const pypi = listFlag(line, 'pypi-packages')
  const npm = listFlag(line, 'npm-packages')
  if (pypi === undefined && npm === undefined) return undefined
  return { pypi: pypi ?? now?.pypi ?? [], npm: npm ?? now?.npm ?? [] }
}

function templatesFlags(line: CommandLine, now?: Halves['templates']): Halves['templates'] | undefined {
  const required = switchFlag(line, 'require-template')
  const bound = listFlag(line, 'bind-agents')
  if (required === undefined && bound === undefined) return undefined
  const agents = bound === undefined ? now?.agents : Object.fromEntries(bound.map(bindingOf))
  return { required: required ?? now?.required ?? false, agents: agents ?? {} }
}

function bindingOf(text: string): [string, string] {
  const [agent = '', template = '', ...rest] = text.split('=')
  if (agent === '' || template === '' || rest.length > 0)
    throw new UsageError(`--bind-agents expects AGENT=TEMPLATE, got ${JSON.stringify(text)}.`)
  return [agent, template]
}

/** The `sandbox` of a template from the flags. Null when it does not opt in. Throws `UsageError`. */
export function templateOf(line: CommandLine): Record<string, unknown> | null {
  const environment = textFlag(line, 'environment')
  if (environment === undefined)
    throw new UsageError('set-template needs --environment NAME, or --environment off.')
  if (environment === 'off') return null
  return withoutUndefined({
    environment,
    network: networkFlag(line),
    min_isolation: textFlag(line, 'min-isolation'),
    retention_days: numberFlag(line, 'retention-days', DAYS),
    encrypt_outputs: switchFlag(line, 'encrypt-outputs'),
  })
}

/** A flag that is `true` or `false`. Undefined when absent. Throws `UsageError` for anything else. */
function switchFlag(line: CommandLine, name: string): boolean | undefined {
  const text = textFlag(line, name)
  if (text !== undefined && !['true', 'false'].includes(text))
    throw new UsageError(`--${name} expects true or false, got ${JSON.stringify(text)}.`)
  return text === undefined ? undefined : text === 'true'
}

function networkFlag(line: CommandLine): unknown {
  const text = textFlag(line, 'network')
  return text === undefined ? undefined : networkOf(text)
}

function listFlag(line: CommandLine, name: string): string[] | undefined {
  const text = textFlag(line, name)
  return text === undefined ? undefined : text === 'none' ? [] : listOf(text)
}
