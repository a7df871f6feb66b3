/** The configuration of a worker, read once from the environment and cofferdam.config.yaml. */
import os from 'node:os'
import {
  agentcoreProvisionConfigSchema,
  azureProvisionConfigSchema,
  orderedBackendsConfigSchema,
  warmConfigSchema,
  type AgentcoreProvisionConfig,
  type AzureProvisionConfig,
  type BackendsConfigInput,
  type WarmConfig,
} from '@cofferdam/backends'
import {
  COMMON_FIELDS,
  commaList,
  printConfig,
  readAll,
  readConfig,
  readFileOf,
  wholeNumber,
  type ConfigField,
} from '@cofferdam/config'
import { pricesSchema, type Prices } from '@cofferdam/contract'
import { cellsConfigSchema, DEFAULT_GROUP, type CellsConfig } from '@cofferdam/queue'
import { egressConfigSchema, type EgressConfig } from '@cofferdam/egress'
import { callbacksConfigSchema, type CallbacksConfig } from '@cofferdam/routines'
import { backendNameSchema } from './backend-name.ts'
import { JANITOR_MS } from './janitor.ts'
import { backendsOf, sandboxSectionSchema, tierSchema, type SandboxSection } from './sandbox-section.ts'
import { z } from 'zod'

/** Strongest isolation first. A backend is used only when its probe succeeds. */
const DEFAULT_BACKENDS = 'gvisor,docker,process'

const MiB = 1_048_576
/** Half of the host. The other half is for the page cache and the stores of a single-node set-up. */
const DEFAULT_BUDGET_MIB = Math.max(256, Math.floor(os.totalmem() / MiB / 2))
/** Programs wait about as long as they compute: two per core keep it busy without long CPU queues. */
const DEFAULT_SLOTS = Math.max(2, 2 * os.availableParallelism())

/** The variables that a worker reads. docs/configuration.md is generated from this. */
export const WORKER_FIELDS = {
  ...COMMON_FIELDS,
  configFile: {
    variable: 'COFFERDAM_CONFIG',
    schema: z.string().optional(),
    description:
      'YAML file with backends, warm sandboxes, egress and more. Unset: cofferdam.config.yaml, if it exists.',
    example: 'cofferdam.config.yaml',
  },
  backendNames: {
    variable: 'COFFERDAM_BACKENDS',
    schema: commaList.prefault(DEFAULT_BACKENDS).pipe(z.array(backendNameSchema)),
    description:
      'Backends of this worker in order of preference. Those that cannot run here are passed over. Unset: ' +
      'the configuration file decides (backends, tier, sandbox.backend), else gvisor,docker,process.',
    example: DEFAULT_BACKENDS,
  },
  slots: {
    variable: 'COFFERDAM_SLOTS',
    schema: wholeNumber(1, 10_000).default(DEFAULT_SLOTS),
    description: 'Executions that this worker runs at once (default: two a core).',
    example: '4',
  },
  memoryBudgetMib: {
    variable: 'COFFERDAM_MEMORY_BUDGET_MIB',
    schema: wholeNumber(64, 16_777_216).default(DEFAULT_BUDGET_MIB),
    description:
      'Bound for the memory limits of all sandboxes on this worker together, MiB (default: half of the ' +
      'memory of the host). Executions wait when it is used up.',
    example: '4096',
  },
  lanes: {
    variable: 'COFFERDAM_LANES',
    schema: commaList
      .prefault('interactive,routine')
      .pipe(z.array(z.enum(['interactive', 'routine'])).min(1)),
    description: 'Lanes that this worker serves.',
    example: 'interactive,routine',
  },
  group: {
    variable: 'COFFERDAM_WORKER_GROUP',
    schema: z
      .string()
      .regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'expected lower-case letters, digits and dashes')
      .default(DEFAULT_GROUP),
    description:
      'Name of the group of workers that are scaled together. The metrics `cofferdam_group_*` show the ' +
      'waiting and running executions of each group.',
    example: 'process',
  },
  routineSlots: {
    variable: 'COFFERDAM_ROUTINE_SLOTS',
    schema: wholeNumber(1, 10_000).optional(),
    description:
      'Most slots that routines may use on a worker that serves both lanes (default: half of ' +
      'COFFERDAM_SLOTS).',
    example: '2',
  },
  sessionReapMs: {
    variable: 'COFFERDAM_SESSION_REAP_MS',
    schema: wholeNumber(100, 3_600_000).default(10_000),
    description:
      'How often this worker looks for idle sessions that any worker can attach to, ' +
      'and ends them, milliseconds.',
    example: '10000',
  },
  sweepMs: {
    variable: 'COFFERDAM_SWEEP_MS',
    schema: wholeNumber(100, JANITOR_MS).default(JANITOR_MS),
    description:
      'How often this worker looks for sandboxes that dead workers left, and destroys them, milliseconds; ' +
      'each look asks every backend.',
    example: '30000',
  },
  identityEndpoint: {
    variable: 'IDENTITY_ENDPOINT',
    schema: z.url({ protocol: /^https?$/ }).optional(),
    description:
      'Where the managed identity of this worker gives tokens, for the azure backend; ' +
      'App Service and Container Apps set it.',
    example: 'http://127.0.0.1:41000/msi/token',
  },
  identityHeader: {
    variable: 'IDENTITY_HEADER',
    schema: z.string().min(1).optional(),
    description:
      'Value of the header that IDENTITY_ENDPOINT requires. App Service and Container Apps set it.',
    example: '853b9a84-5bfa-4b22-a3f3-0b9a43d9ad8a',
    secret: true,
  },
  drainMs: {
    variable: 'COFFERDAM_DRAIN_MS',
    schema: wholeNumber(0, 3_600_000).default(25_000),
    description: 'How long running executions may go on after the first SIGTERM, milliseconds.',
    example: '25000',
  },
} satisfies Record<string, ConfigField>

/** An environment in the form of `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>

/** The sections of cofferdam.config.yaml. */
export const fileSchema = z.strictObject({
  tier: tierSchema.optional(),
  sandbox: sandboxSectionSchema.prefault({}),
  backends: orderedBackendsConfigSchema.optional(),
  warm: warmConfigSchema.prefault({}),
  egress: egressConfigSchema.prefault({}),
  callbacks: callbacksConfigSchema.prefault({}),
  prices: pricesSchema.prefault({}),
  cells: cellsConfigSchema.prefault({}),
  provisioning: z
    .strictObject({
      agentcore: agentcoreProvisionConfigSchema.optional(),
      azure: azureProvisionConfigSchema.optional(),
    })
    .prefault({}),
  telemetry: z
    .strictObject({
      sample_ratio: z
        .number()
        .min(0)
        .max(1)
        .optional()
        .describe(
          'Share of traces without failure that is sent to the collector; COFFERDAM_TRACE_SAMPLE_RATIO wins.',
        ),
    })
    .prefault({}),
  /** The dispatcher checks it. */
  dispatcher: z.unknown().optional(),
})

export type WorkerConfig = ReturnType<typeof readConfig<typeof WORKER_FIELDS>>['config'] & {
  /** Sections of the backends to create, in order of preference. */
  backends: BackendsConfigInput
  /** Warm slots, cells and preload sets. */
  warm: WarmConfig
  /** The hosts that programs may reach at most, and the package mirrors. */
  egress: EgressConfig
  /** Where results may be posted to. */
  callbacks: CallbacksConfig
  /** What attempts cost, by backend. */
  prices: Prices
  /** Which tenants live in which cell. */
  placement: CellsConfig
  /** How tenants are provisioned at vendors. */
  provisioning: Provisioning
  /** The most that an execution gets on this worker. */
  sandbox: SandboxSection
}

/** The `provisioning` section. */
export interface Provisioning {
  agentcore?: AgentcoreProvisionConfig | undefined
  /**
   * The settings with which the API and the command line create the fleet's session pool. Workers create no
   * pool.
   */
  azure?: AzureProvisionConfig | undefined
}

/**
 * Reads the worker's configuration. COFFERDAM_BACKENDS decides which backends exist and in which order.
 * Without it, the file's `backends` section does, or else its `tier` and `sandbox`. Throws `config_invalid`
 * with every problem.
 */
export function loadConfig(env: Environment = process.env): WorkerConfig {
  const [{ config }, file] = readAll(
    () => readConfig(WORKER_FIELDS, env),
    () => readFileOf(env, fileSchema),
  )
  const ofSandbox = backendsOf(file.tier, file.sandbox)
  const isNamed = env['COFFERDAM_BACKENDS'] !== undefined
  const fromFile = file.backends === undefined ? ofSandbox : Object.keys(file.backends)
  const names = isNamed ? config.backendNames : (fromFile ?? config.backendNames)
  const sections: Record<string, object | undefined> = file.backends ?? {}
  return {
    ...config,
    traceSampleRatio: config.traceSampleRatio ?? file.telemetry.sample_ratio,
    backends: Object.fromEntries(names.map((name) => [name, sections[name] ?? {}])),
    sandbox: file.sandbox,
    warm: file.warm,
    egress: file.egress,
    callbacks: file.callbacks,
    prices: file.prices,
    placement: file.cells,
    provisioning: file.provisioning,
  }
}

/** Reads only the `provisioning` section, for apps that provision. Throws like `loadConfig`. */
export function loadProvisioning(env: Environment): Provisioning {
  return readFileOf(env, fileSchema).provisioning
}

/** The effective configuration as text, with the source of each value and without secrets. */
export function describeConfig(env: Environment = process.env): string {
  const { backends } = loadConfig(env)
  const fields = printConfig(WORKER_FIELDS, readConfig(WORKER_FIELDS, env))
  return `${fields}\n# backends: ${JSON.stringify(backends)}`
}
