/** The configuration of a dispatcher, read once from the environment and cofferdam.config.yaml. */
import {
  COMMON_FIELDS,
  printConfig,
  readAll,
  readConfig,
  readFileOf,
  wholeNumber,
  type ConfigField,
  type ConfigOf,
} from '@cofferdam/config'
import { limitsSchema, nameSchema, networkSchema } from '@cofferdam/contract'
import { kubernetesConfigSchema } from '@cofferdam/backend-kubernetes/config'
import { z } from 'zod'
import { spareSettingsSchema } from './scale/spare-settings.ts'

const { redisUrl, cell, otlpEndpoint, traceSampleRatio, traceSlowMs, metricsPort, metricsHost, logLevel } =
  COMMON_FIELDS

/** The variables that a dispatcher reads. docs/configuration.md is generated from this. */
export const DISPATCHER_FIELDS = {
  redisUrl,
  cell,
  otlpEndpoint,
  traceSampleRatio,
  traceSlowMs,
  metricsPort,
  metricsHost,
  logLevel,
  configFile: {
    variable: 'COFFERDAM_CONFIG',
    schema: z.string().optional(),
    description: 'YAML file with the section dispatcher. Unset: cofferdam.config.yaml, if it exists.',
    example: 'cofferdam.config.yaml',
  },
  drainMs: {
    variable: 'COFFERDAM_DRAIN_MS',
    schema: wholeNumber(0, 3_600_000).default(300_000),
    description:
      'How long agents may finish their turns after the first SIGTERM, milliseconds. The next dispatcher ' +
      'takes over the turns that are unfinished then.',
    example: '300000',
  },
} as const satisfies Record<string, ConfigField>

const ofLimits = limitsSchema.in.shape
const httpUrl = z.url({ protocol: /^https?$/, error: 'expected an http or https URL' })

/** One self-hosted environment of a control plane, and the sandboxes that its sessions get. */
export const environmentSchema = z.strictObject({
  id: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,128}$/)
    .describe('The environment at the control plane, `env_…`.'),
  tenant_id: nameSchema.describe('The tenant whose policy, caps and audit its tool calls fall under.'),
  agent_id: nameSchema
    .default('managed-agents')
    .describe('Agent of executions that no agent asked for: preparing a sandbox, collecting outputs.'),
  template_id: nameSchema
    .optional()
    .describe('Template of its executions, for tenants that run nothing without one.'),
  key_file: z
    .string()
    .min(1)
    .describe('File with the environment key. It is read again when the control plane refuses the key.'),
  api_key_file: z
    .string()
    .min(1)
    .optional()
    .describe(
      'File with an API key. The dispatcher only reads with it how many work items wait, for `pool`. Tool ' +
        'calls never use it.',
    ),
  pool: nameSchema
    .optional()
    .describe('The pool of `dispatcher.pools` whose spare sandboxes its sessions take.'),
  base_url: httpUrl
    .default('https://api.anthropic.com')
    .describe('The control plane: Anthropic, or a compatible one.'),
  worker_id_header: z
    .string()
    .regex(/^[A-Za-z0-9-]{1,64}$/)
    .default('Anthropic-Worker-ID')
    .describe('Header that names this dispatcher when it polls.'),
  headers: z
    .record(z.string().regex(/^[A-Za-z0-9-]{1,64}$/), z.string().max(1024))
    .prefault({})
    .describe('More headers of every call, for example those of a gateway.'),
  backend: z.string().min(1).max(64).default('auto').describe('Backend of the sandboxes.'),
  shell: z
    .enum(['kept', 'restored'])
    .default('kept')
    .describe(
      'kept: one shell for each session, whose background jobs live on. Needs a backend with sessions of ' +
        'scope processes. restored: each command continues with the folder, variables and functions of the ' +
        'last one. For backends without such sessions (gvisor, e2b).',
    ),
  network: networkSchema.default('none').describe('What tool calls may reach, within the tenant’s policy.'),
  limits: z
    .strictObject({
      memory_mib: ofLimits.memory_mib.describe('Memory, MiB.'),
      cpus: ofLimits.cpus.describe('CPUs.'),
      pids: ofLimits.pids.describe('Processes and threads.'),
      disk_mib: ofLimits.disk_mib.describe('Disk, MiB.'),
    })
    .prefault({})
    .describe('Limits of each session’s sandbox.'),
  max_sessions: z
    .int()
    .min(1)
    .max(10_000)
    .default(50)
    .describe('Sessions that are served at once. At this number the dispatcher does not poll.'),
  max_idle_ms: z
    .int()
    .min(1000)
    .max(3_600_000)
    .default(60_000)
    .describe(
      'How long a session is served after the turn of its agent has ended, milliseconds. The default is ' +
        'the SDK’s.',
    ),
  park_ms: z
    .int()
    .min(1000)
    .max(3_600_000)
    .default(600_000)
    .describe('How long a session’s sandbox waits for the session’s next work item, milliseconds.'),
  on_work: z
    .string()
    .min(1)
    .optional()
    .describe(
      'Program that serves each work item instead of the dispatcher, as with `ant beta:worker poll ' +
        '--on-work`.',
    ),
  on_work_key: z
    .boolean()
    .default(false)
    .describe('Whether that program gets the environment key, with which it could claim every session.'),
})
export type EnvironmentConfig = z.output<typeof environmentSchema>

/** Spare sandboxes that are kept for sessions to come (docs/operations/dispatcher-scaling.md). */
export const poolSchema = z.strictObject({
  name: nameSchema.describe('Names the pool in `environments` and in metrics.'),
  spare: spareSettingsSchema.prefault({}).describe('How many sandboxes are kept.'),
  kubernetes: kubernetesConfigSchema
    .optional()
    .describe(
      'The SandboxWarmPool that the dispatcher scales, as in `backends.kubernetes`. Without it the target ' +
        'is only a metric, for KEDA or an HPA.',
    ),
})

const sectionSchema = z
  .strictObject({
    pools: z.array(poolSchema).max(64).default([]),
    environments: z
      .array(environmentSchema)
      .max(256)
      .refine((all) => new Set(all.map(({ id }) => id)).size === all.length, 'expected each environment once')
      .default([]),
  })
  .refine(
    ({ pools, environments }) =>
      environments.every(({ pool }) => pool === undefined || pools.some(({ name }) => name === pool)),
    'expected each `pool` of an environment to be one of `pools`',
  )

/** The other sections are the workers’, who check them. */
const fileSchema = z.looseObject({ dispatcher: sectionSchema.prefault({}) })

export type DispatcherConfig = ConfigOf<typeof DISPATCHER_FIELDS> & {
  environments: EnvironmentConfig[]
  pools: z.output<typeof poolSchema>[]
}

/** An environment in the form of `process.env`. */
export type Variables = Readonly<Record<string, string | undefined>>

/** The variables of this process that are passed on to a program of `on_work`. */
export function programVariables(variables: Variables = process.env): Record<string, string> {
  const { PATH, HOME, LANG } = variables
  return Object.fromEntries(
    Object.entries({ PATH, HOME, LANG }).filter((one): one is [string, string] => one[1] !== undefined),
  )
}

/** Throws `config_invalid` with every problem. `environments` is empty if the file has no such section. */
export function loadConfig(variables: Variables = process.env): DispatcherConfig {
  const [{ config }, { dispatcher }] = readAll(
    () => readConfig(DISPATCHER_FIELDS, variables),
    () => readFileOf(variables, fileSchema),
  )
  return { ...config, ...dispatcher }
}

/** The effective configuration as text, with the source of each value and without secrets. */
export function describeConfig(variables: Variables = process.env): string {
  const { environments } = loadConfig(variables)
  const fields = printConfig(DISPATCHER_FIELDS, readConfig(DISPATCHER_FIELDS, variables))
  return `${fields}\n# environments: ${JSON.stringify(environments)}`
}
