/**
 * The pages under docs/ that are made of tables in the code. scripts/check.ts compares them with what stands there,
 * `npm run check -- --write` writes them.
 */
import {
  agentcoreProvisionConfigSchema,
  azureProvisionConfigSchema,
  BACKENDS,
  backendsConfigSchema,
} from '@cofferdam/backends'
import type { ConfigField } from '@cofferdam/config'
import {
  ENDINGS,
  ERRORS,
  errorClassOf,
  exitStatusOf,
  type Ending,
  type ErrorCode,
  type Price,
} from '@cofferdam/contract'
import { z } from 'zod'
import { API_FIELDS } from '../apps/api/src/config.ts'
import { CLI_FIELDS } from '../apps/cli/src/config.ts'
import { EXIT, exitStatusFor } from '../apps/cli/src/exit-status.ts'
import { fileSchema, WORKER_FIELDS } from '../apps/worker/src/config.ts'
import { telemetryPage } from './telemetry-page.ts'

const MADE = (source: string) =>
  `<!-- Made of ${source} by \`npm run check -- --write\`; changes here are lost. -->`

/** Cells of a table must not end it. */
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
const row = (...cells: string[]): string => `| ${cells.map(cell).join(' | ')} |`

const RETRY_WORDS = {
  never: 'no: the same call fails again',
  later: 'later: the same call may work',
  elsewhere: 'on another backend',
} as const

/** When an attempt ends so. */
const ENDING_WORDS: Record<Ending, string> = {
  ok: 'The program exited with status 0.',
  error: 'The program exited with another status, or raised.',
  crashed: 'A signal that nobody of ours sent killed the program.',
  soft_timeout: 'It stopped after being asked to at the soft deadline; its output up to there is kept.',
  hard_timeout: 'It was still there at the hard deadline; the whole process tree was killed.',
  oom: 'The kernel killed a process of the sandbox for its memory limit.',
  pids_limit: 'It failed after a fork was refused for the process limit.',
  disk_limit: 'It failed after a write was refused for the disk limit.',
  output_limit: 'It printed more than its limit, and the request said to kill it for that.',
  cancelled: 'Somebody cancelled it.',
  policy_denied: 'The tenant’s policy does not allow it. No code ran.',
  cap_exceeded: 'A cap of the tenant or agent is used up. No code ran.',
  provisioning: 'No place to run it could be had. No code ran.',
  sandbox_lost: 'The sandbox died under the program.',
  worker_lost: 'The worker died after the program had begun.',
}

/** The CLI's exit status for an ending whose program exited with 1 where it exited at all. */
function cliStatus(ending: Ending): string {
  const status = exitStatusFor({ ending, exit_code: 1, signal: null })
  const own = exitStatusFor({ ending, exit_code: 3, signal: null }) === 3
  return own ? 'the program’s' : String(status)
}

function errorRow(code: ErrorCode): string {
  const { http, retry, charged, message, hint } = ERRORS[code]
  return row(`\`${code}\``, String(http), RETRY_WORDS[retry], charged ? 'yes' : 'no', message, hint)
}

function errorsPage(): string {
  const codes = Object.keys(ERRORS) as ErrorCode[]
  return [
    MADE('libs/contract/src/errors.ts and endings.ts'),
    '# Errors and endings',
    '',
    'Two things can go wrong, and they never mix. A **program** that fails is data: its execution has an *ending*, and the',
    'result says which. The **platform** failing is an error with a code from one table.',
    '',
    '## Endings',
    '',
    '`ending` is fine-grained; `exit_status` is its coarse class; `error` is the class that an agent sees.',
    '',
    row('ending', 'exit_status', 'error', 'when', 'exit status of the CLI'),
    row('---', '---', '---', '---', '---'),
    ...ENDINGS.map((ending) =>
      row(
        `\`${ending}\``,
        `\`${exitStatusOf(ending)}\``,
        errorClassOf(ending) === null ? '' : `\`${errorClassOf(ending)}\``,
        ENDING_WORDS[ending],
        cliStatus(ending),
      ),
    ),
    '',
    `A program that a signal killed gives the CLI 128 plus its number. The CLI itself exits with ${EXIT.platform} when the platform`,
    `fails and ${EXIT.usage} when the command line or the configuration is wrong.`,
    '',
    '## Platform errors',
    '',
    'On the wire: `{"error": {"code", "message", "hint", "retry", "details"?, "trace_id"?}}`. Compare by `code`. *Charged* says',
    'whether the execution stays counted against the caps.',
    '',
    row('code', 'HTTP', 'retry', 'charged', 'message', 'what to do'),
    row('---', '---', '---', '---', '---', '---'),
    ...codes.map(errorRow),
    '',
  ].join('\n')
}

/** What applies when a variable is unset, as one would write it. */
function defaultOf(field: ConfigField): string {
  const unset = field.schema.safeParse(undefined)
  if (!unset.success) return 'required'
  const schema = z.toJSONSchema(field.schema, { io: 'input', unrepresentable: 'any' })
  // What one would write comes before what it is parsed to, which may hold an absolute path of this machine.
  const shown = schema.default ?? unset.data
  if (shown === undefined) return 'unset'
  return typeof shown === 'string' || typeof shown === 'number' ? `\`${shown}\`` : 'see the description'
}

/** The keys of a price, and what each is the price of. */
const PRICE_WORDS: Record<keyof Price, string> = {
  call: 'each charged attempt',
  cpu_second: 'a second of CPU time',
  gb_second: '1,024 MiB of memory limit for a second of run time',
}

/** Defaults that differ between machines must not differ in a page that is compared. */
const MACHINE_DEPENDENT = ['COFFERDAM_SLOTS', 'COFFERDAM_MEMORY_BUDGET_MIB']

function fieldRow(field: ConfigField): string {
  const fallback = MACHINE_DEPENDENT.includes(field.variable) ? 'see the description' : defaultOf(field)
  return row(`\`${field.variable}\``, fallback, field.description, `\`${field.example}\``)
}

interface JsonSchema {
  type?: string | string[]
  properties?: Record<string, JsonSchema>
  required?: string[]
  default?: unknown
  description?: string
  enum?: unknown[]
  anyOf?: JsonSchema[]
}

const typeWords = (schema: JsonSchema): string =>
  schema.enum !== undefined
    ? schema.enum.map((value) => JSON.stringify(value)).join(' or ')
    : [schema.type ?? (schema.anyOf ?? []).map(typeWords)].flat().join(' or ')

function backendSections(): string[] {
  const whole = z.toJSONSchema(backendsConfigSchema, { io: 'input', unrepresentable: 'any' }) as JsonSchema
  return Object.entries(BACKENDS).flatMap(([name, { isolation }]) => [
    `### \`${name}\``,
    '',
    isolation,
    '',
    ...keyTable(whole.properties?.[name] ?? {}),
    '',
  ])
}

/** A section of the file that is no backend; keys of sections inside of it have a dot. */
function fileSection(name: keyof typeof fileSchema.shape, about: string): string[] {
  const whole = z.toJSONSchema(fileSchema, { io: 'input', unrepresentable: 'any' }) as JsonSchema
  return [`### \`${name}\``, '', about, '', ...keyTable(flattened(whole.properties?.[name] ?? {})), '']
}

function flattened({ properties = {} }: JsonSchema): JsonSchema {
  const flat = Object.entries(properties).flatMap(([key, schema]): [string, JsonSchema][] =>
    schema.properties === undefined
      ? [[key, schema]]
      : Object.entries(flattened(schema).properties ?? {}).map(([inner, one]) => [`${key}.${inner}`, one]),
  )
  return { properties: Object.fromEntries(flat) }
}

function keyTable({ properties = {}, required = [] }: JsonSchema): string[] {
  const rows = Object.entries(properties).map(([key, schema]) =>
    row(
      `\`${key}\``,
      typeWords(schema),
      schema.default === undefined
        ? required.includes(key)
          ? 'required'
          : ''
        : `\`${JSON.stringify(schema.default)}\``,
      schema.description ?? '',
    ),
  )
  if (rows.length === 0) return ['No settings.']
  return [row('key', 'type', 'default', 'what it is'), row('---', '---', '---', '---'), ...rows]
}

function configurationPage(): string {
  const section = (title: string, intro: string, fields: Record<string, ConfigField>) => [
    `## ${title}`,
    '',
    intro,
    '',
    row('variable', 'when unset', 'what it is', 'example'),
    row('---', '---', '---', '---'),
    ...Object.values(fields).map(fieldRow),
    '',
  ]
  return [
    MADE(
      'the schemas in apps/*/src/config.ts and libs/{backends/src/*,egress/src,routines/src/callbacks}/config.ts',
    ),
    '# Configuration',
    '',
    'With nothing set, `npm start` works. Start-up configuration comes from the environment and from `cofferdam.config.yaml`,',
    'and cannot change while a process runs; what belongs to a tenant (policy, caps) is data and changes live',
    '(`cofferdam tenant`, `cofferdam caps`). An unknown `COFFERDAM_*` variable or key is an error that names the nearest known',
    'one, and all problems are reported at once.',
    '',
    ...section('API', '`cofferdam api`, or `node apps/api/src/main.ts`.', API_FIELDS),
    ...section('Worker', '`cofferdam worker`, or `node apps/worker/src/main.ts`.', WORKER_FIELDS),
    ...section(
      'Command',
      'What `cofferdam` itself reads. `NO_COLOR` and `FORCE_COLOR` are respected.',
      CLI_FIELDS,
    ),
    '## Tests',
    '',
    '`COFFERDAM_REQUIRE=all` makes `npm test` fail where a part of the machine is missing or a test is skipped.',
    '',
    '## `cofferdam.config.yaml`',
    '',
    'The key `backends` names the backends of a worker; each takes these settings (`docker: {}` for the defaults). `auto` tries them in',
    'the order in which the file names them, or in that of `COFFERDAM_BACKENDS`, which may also leave some out or name others. The doubles `fake` and `hostile` are for tests and run nothing that deserves the name of a sandbox.',
    '',
    ...backendSections(),
    '### `tier`',
    '',
    '1 or 2: this worker has no backend. 3: a container or stronger. 4: the host itself, for tenants whose policy says so. A section `backends`',
    'and `COFFERDAM_BACKENDS` come before it.',
    '',
    ...fileSection('sandbox', 'The most that an execution gets on this worker.'),
    ...fileSection('warm', 'Sandboxes that wait before they are needed, and cells (docs/sandboxes.md).'),
    ...fileSection('egress', 'What programs may reach at most, and the package mirrors.'),
    ...fileSection('callbacks', 'Where results may be posted to (docs/routines.md).'),
    ...fileSection('telemetry', 'What is sent to the collector.'),
    '### `provisioning.agentcore`',
    '',
    'How tenants get code interpreters of their own, for `cofferdam provision agentcore` and for workers where `every_ms` is set',
    '(docs/operations/agentcore.md). Left out: nothing is provisioned.',
    '',
    ...keyTable(
      z.toJSONSchema(agentcoreProvisionConfigSchema, { io: 'input', unrepresentable: 'any' }) as JsonSchema,
    ),
    '',
    '### `provisioning.azure`',
    '',
    'In whose subscription the API and `cofferdam provision azure` make session pools, and with which credentials',
    '(libs/backends/azure/OPERATIONS.md). Left out: they make none.',
    '',
    ...keyTable(
      z.toJSONSchema(azureProvisionConfigSchema, { io: 'input', unrepresentable: 'any' }) as JsonSchema,
    ),
    '',
    '### `prices`',
    '',
    'What attempts cost, by backend, in units of no currency; `default` holds for backends that are not named. Workers compute it',
    'at each ending; all of them should have the same prices (docs/operations/caps.md).',
    '',
    row('key', 'of', 'default'),
    row('---', '---', '---'),
    ...Object.entries(PRICE_WORDS).map(([key, words]) => row(`\`${key}\``, words, '0')),
    '',
    '```yaml',
    'prices:',
    '  default: { cpu_second: 0.00002, gb_second: 0.000003 }',
    '  gvisor: { call: 0.0001, cpu_second: 0.00003 }',
    '```',
    '',
  ].join('\n')
}

/** Path below the root → the text that belongs there. */
export const GENERATED_PAGES: Readonly<Record<string, () => string>> = {
  'docs/errors.md': errorsPage,
  'docs/reference/telemetry.md': () =>
    telemetryPage(MADE('libs/telemetry/src/{catalog,metric-catalog,log-records,backend-log-records}.ts')),
  'docs/configuration.md': () => `${configurationPage().trimEnd()}\n`,
}
