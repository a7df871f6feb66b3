/** Generates docs/configuration.md from the schemas that the processes read their configuration with. */
import {
  agentcoreProvisionConfigSchema,
  azureProvisionConfigSchema,
  BACKENDS,
  backendsConfigSchema,
} from '@cofferdam/backends'
import type { ConfigField } from '@cofferdam/config'
import { z } from 'zod'
import { API_FIELDS } from '../apps/api/src/config.ts'
import type { JsonSchema } from '../apps/api/src/openapi-document.ts'
import { CLI_FIELDS } from '../apps/cli/src/config.ts'
import { DISPATCHER_FIELDS, environmentSchema, poolSchema } from '../apps/dispatcher/src/config.ts'
import { fileSchema, WORKER_FIELDS } from '../apps/worker/src/config.ts'
import { code, fieldRows, MADE, table, typeWords, wrapped } from './page-table.ts'

/** The value that applies if a variable is unset, in the form that a user would write. */
function defaultOf(field: ConfigField): string {
  const unset = field.schema.safeParse(undefined)
  if (!unset.success) return 'required'
  const schema = z.toJSONSchema(field.schema, { io: 'input', unrepresentable: 'any' })
  // The user's form comes first: the parsed value may have an absolute path of this machine.
  const shown = schema.default ?? unset.data
  if (shown === undefined || shown === '') return 'unset'
  return typeof shown === 'string' || typeof shown === 'number' ? code(String(shown)) : 'see the description'
}

/** Variables whose default differs between machines. The page must be the same on all of them. */
const MACHINE_DEPENDENT = ['COFFERDAM_SLOTS', 'COFFERDAM_MEMORY_BUDGET_MIB']

function variables(title: string, intro: string, fields: Record<string, ConfigField>): string[] {
  const rows = Object.values(fields).map((field) => {
    const unset = MACHINE_DEPENDENT.includes(field.variable) ? 'see the description' : defaultOf(field)
    return [code(field.variable), unset, field.description, code(field.example)]
  })
  return [`## ${title}`, '', intro, '', ...table(['variable', 'when unset', 'what it is', 'example'], rows)]
}

const jsonSchemaOf = (schema: z.ZodType): JsonSchema =>
  z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema

/** The unit of a number, from the name of its key. */
function unitOf(key: string, { type }: JsonSchema): string {
  const [, unit = ''] = /(?:^|[._])(ms|mib|bytes)$/.exec(key) ?? []
  return unit === '' || type === 'boolean' ? '' : ` ${unit === 'mib' ? 'MiB' : unit}`
}

/** A row for each key of a section, also of the sections in it. */
function keys(schema: JsonSchema): string[] {
  const rows = fieldRows(schema).map(({ key, schema, isRequired }) => {
    const unset = isRequired
      ? 'required'
      : schema.default === undefined
        ? ''
        : code(JSON.stringify(schema.default))
    return [code(key), `${typeWords(schema)}${unitOf(key, schema)}`, unset, schema.description ?? '']
  })
  return rows.length === 0 ? [] : table(['key', 'type', 'default', 'what it is'], rows)
}

const wholeFile = jsonSchemaOf(fileSchema)
const section = (
  name: keyof typeof fileSchema.shape,
  about: string,
  schema = wholeFile.properties?.[name],
) => [`### \`${name}\``, '', about, '', ...keys(schema ?? {})]

function backendSections(): string[] {
  const { properties = {} } = jsonSchemaOf(backendsConfigSchema)
  return Object.entries(BACKENDS).flatMap(([name, { isolation }]) => [
    `### \`${name}\``,
    '',
    wrapped(isolation),
    '',
    ...keys(properties[name] ?? {}),
  ])
}

export function configurationPage(): string {
  return [
    MADE('scripts/configuration-page.ts', 'apps/*/src/config.ts', 'and the schemas that these import'),
    '# Configuration',
    '',
    'This page lists every setting. `npm start` works without any of them. A worker with two backends needs',
    'no more than this:',
    '',
    '```yaml',
    '# cofferdam.config.yaml',
    'backends:',
    '  docker: { image: cofferdam/sandbox:full }',
    '  process: {}',
    '```',
    '',
    '| what | where | changes take effect |',
    '| --- | --- | --- |',
    '| settings of a process | environment and `cofferdam.config.yaml`, listed below | at the next start |',
    '| policy and caps of a tenant | Postgres (`cofferdam tenant`, `cofferdam caps`) | while processes run |',
    '',
    'An unknown `COFFERDAM_*` variable or an unknown key is an error, which suggests a similar name if there',
    'is one. All problems are reported at once.',
    '',
    ...variables('API', '`cofferdam api`, or `node apps/api/src/main.ts`.', API_FIELDS),
    ...variables('Worker', '`cofferdam worker`, or `node apps/worker/src/main.ts`.', WORKER_FIELDS),
    ...variables(
      'Dispatcher',
      '`cofferdam dispatcher`, or `node apps/dispatcher/src/main.ts`.',
      DISPATCHER_FIELDS,
    ),
    ...variables(
      'Command',
      'The `cofferdam` command itself reads these variables, and `NO_COLOR` and `FORCE_COLOR`.',
      CLI_FIELDS,
    ),
    '## Tests',
    '',
    'With `COFFERDAM_REQUIRE=all`, `npm test` fails if the machine lacks something that tests need, such as',
    'Docker, or if a test is skipped.',
    '',
    '## `cofferdam.config.yaml`',
    '',
    'The key `backends` names the backends of a worker. Each of them takes the settings below; `docker: {}`',
    'means the defaults. An execution with backend `auto` gets the first one that fits, in the order of the',
    'file or of `COFFERDAM_BACKENDS`, which may also leave some out or name others. The doubles `fake` and',
    '`hostile` are for tests and isolate nothing.',
    '',
    ...backendSections(),
    '### `tier`',
    '',
    'A number that chooses the backends. 1 or 2: this worker has none. 3: `gvisor` and `docker`. 4: `none`,',
    'for tenants whose policy allows it. `sandbox.backend` overrides 3 and 4. A section `backends` and',
    '`COFFERDAM_BACKENDS` override every number.',
    '',
    ...section(
      'sandbox',
      'Upper bounds for every execution on this worker. `backend` can also name its only backend.',
    ),
    ...section('warm', 'Warm sandboxes, and cells, which a session or a tenant reuses (docs/sandboxes.md).'),
    ...section('egress', 'The most that programs may reach, and the package mirrors.'),
    ...section('callbacks', 'Addresses that results may be posted to (docs/routines.md).'),
    ...section('cells', 'Which tenants live in which cell of the fleet (docs/operations/cells.md).'),
    ...section('telemetry', 'Settings of what is sent to the collector.'),
    '### `dispatcher.environments`',
    '',
    'The Managed Agents environments that `cofferdam dispatcher` serves (docs/operations/dispatcher.md): a list.',
    '',
    ...keys(jsonSchemaOf(environmentSchema)),
    '### `dispatcher.pools`',
    '',
    'Pools of spare sandboxes for these environments (docs/operations/dispatcher-scaling.md): a list.',
    '',
    ...keys(jsonSchemaOf(poolSchema)),
    '### `provisioning.agentcore`',
    '',
    'How tenants get code interpreters of their own (libs/backends/agentcore/OPERATIONS.md).',
    '`cofferdam provision agentcore` reads it, and so do workers if `every_ms` is set. Without this section,',
    'nothing is provisioned.',
    '',
    ...keys(jsonSchemaOf(agentcoreProvisionConfigSchema)),
    '### `provisioning.azure`',
    '',
    'The subscription in which the API and `cofferdam provision azure` make session pools, and the',
    'credentials that they use (libs/backends/azure/OPERATIONS.md). Without this section, they make none.',
    '',
    ...keys(jsonSchemaOf(azureProvisionConfigSchema)),
    '### `prices`',
    '',
    'What attempts cost, by backend, in units without a currency. `default` applies to backends that are not',
    'named. A price has three keys, 0 by default: `call` for each charged attempt, `cpu_second` for a second',
    'of CPU time, and `gb_second` for 1,024 MiB of memory limit during a second of run time. Workers compute',
    'the cost at each ending, so all of them should have the same prices (docs/operations/caps.md).',
    '',
    ...keys(wholeFile.properties?.['prices'] ?? {}),
    '```yaml',
    'prices:',
    '  default: { cpu_second: 0.00002, gb_second: 0.000003 }',
    '  gvisor: { call: 0.0001, cpu_second: 0.00003 }',
    '```',
    '',
  ]
    .join('\n')
    .trimEnd()
    .concat('\n')
}
