/** Per-tenant policy and caps. Changes take effect without a restart. */
import { z } from 'zod'
import { boundedRecord } from './bounded-record.ts'
import { isolationSchema } from './isolation.ts'
import { DEFAULT_LIMITS, MAX_LIMITS } from './limits.ts'
import { MICRO } from './price.ts'
import { environmentSchema, nameSchema, networkSchema } from './request.ts'

export const COMPLIANCE_TIERS = ['standard', 'regulated', 'hipaa'] as const

const packageRules = z.array(z.string().min(1).max(256)).max(2000)
const packagesSchema = z.strictObject({ pypi: packageRules, npm: packageRules })
const commandRule = z.string().min(1).max(256).regex(/\S/, 'expected a program')
const commandsSchema = z.strictObject({
  allow: z.array(commandRule).max(512).nullable(),
  block: z.array(commandRule).max(512),
})

/** The highest value that a request may ask for. Never below the default, which every request may have. */
const artifactLimit = (name: 'artifact_bytes' | 'artifacts_total_bytes' | 'artifact_count') =>
  z.int().min(DEFAULT_LIMITS[name]).max(MAX_LIMITS[name])
const ARTIFACT_LIMITS = {
  max_artifact_bytes: artifactLimit('artifact_bytes'),
  max_artifacts_total_bytes: artifactLimit('artifacts_total_bytes'),
  max_artifact_count: artifactLimit('artifact_count'),
}

/** Agents of one tenant that are bound to a template. Their names and templates take at most 256 KiB. */
const MAX_BOUND_AGENTS = 1000
const templatesSchema = z.strictObject({
  /** Refuse executions that no template applies to. */
  required: z.boolean(),
  /** The template of each agent, which applies whatever template a request names. */
  agents: boundedRecord(nameSchema, nameSchema, MAX_BOUND_AGENTS, 'agents'),
})

const outputRetention = z.int().min(1).max(180).nullable()

export const tenantPolicySchema = z.strictObject({
  tenant_id: nameSchema,
  sandbox_enabled: z.boolean(),
  compliance_tier: z.enum(COMPLIANCE_TIERS),
  /** Neither a request nor fallback to another backend can lower it. */
  min_isolation: isolationSchema,
  /** Environments that are provisioned for the tenant. */
  environments: z.array(environmentSchema),
  retention_days: z.int().min(1).max(180),
  /** Literal values, 12 bytes or more each, that are redacted from all output of the tenant's programs. */
  redact: z.array(z.string().min(12).max(4096)).max(64),
  /**
   * What a program may reach. A request can only restrict it. Under `public` it may list hosts with any port.
   * Private addresses are always refused.
   */
  network: networkSchema.default('public'),
  /** Packages that `install` may fetch: `name`, `name==1.2.*`, `@scope/*`, `*`. Default: none. */
  packages: packagesSchema.default({ pypi: [], npm: [] }),
  /** Programs that `command` may start. No security boundary. `allow: null`: all but `block`. */
  commands: commandsSchema.default({ allow: null, block: [] }),
  /** Which agents must run under a template. An API key can also be bound to one. */
  templates: templatesSchema.default({ required: false, agents: {} }),
  /** Full outputs and artifacts are stored encrypted. */
  encrypt_outputs: z.boolean().default(false),
  /** Days after which full outputs and artifacts are deleted. Null: together with their rows. */
  output_retention_days: outputRetention.default(null),
  max_artifact_bytes: ARTIFACT_LIMITS.max_artifact_bytes.default(DEFAULT_LIMITS.artifact_bytes),
  max_artifacts_total_bytes: ARTIFACT_LIMITS.max_artifacts_total_bytes.default(
    DEFAULT_LIMITS.artifacts_total_bytes,
  ),
  max_artifact_count: ARTIFACT_LIMITS.max_artifact_count.default(DEFAULT_LIMITS.artifact_count),
  /** Executions with a `run_id` share the session of their run, unless they set `session` or `reuse`. */
  run_sessions: z.boolean().default(false),
})
export type TenantPolicy = z.infer<typeof tenantPolicySchema>

/** Any fields of a policy. Has no defaults: `partial()` alone would fill them in, and so reset fields. */
export const tenantPolicyPatchSchema = tenantPolicySchema
  .omit({ tenant_id: true })
  .extend({
    network: networkSchema,
    packages: packagesSchema,
    commands: commandsSchema,
    templates: templatesSchema,
    encrypt_outputs: z.boolean(),
    output_retention_days: outputRetention,
    ...ARTIFACT_LIMITS,
    run_sessions: z.boolean(),
  })
  .partial()

/** The rules of a new tenant's policy. */
export const DEFAULT_TENANT_RULES: Omit<
  TenantPolicy,
  | 'tenant_id'
  | 'sandbox_enabled'
  | 'compliance_tier'
  | 'min_isolation'
  | 'environments'
  | 'retention_days'
  | 'redact'
> = {
  network: 'public',
  packages: { pypi: [], npm: [] },
  commands: { allow: null, block: [] },
  templates: { required: false, agents: {} },
  encrypt_outputs: false,
  output_retention_days: null,
  max_artifact_bytes: DEFAULT_LIMITS.artifact_bytes,
  max_artifacts_total_bytes: DEFAULT_LIMITS.artifacts_total_bytes,
  max_artifact_count: DEFAULT_LIMITS.artifact_count,
  run_sessions: false,
}

const cap = z.int().min(0).max(1_000_000_000)
/** A billion units: with everything in flight far below 2^53, so Lua and JavaScript count exactly. */
const MOST_COST = 1_000_000_000 * MICRO
/**
 * Agents of one tenant with an hourly cap of their own. Their names and caps take at most 1.5 MB, in the
 * tenant's row and in Redis.
 */
const MAX_CAPPED_AGENTS = 10_000
/** Caps and queue limits of a tenant. Null means the fleet's default. A cap of 0 stops the tenant. */
export const tenantCapsSchema = z.strictObject({
  tenant_daily: cap.nullable(),
  agent_hourly: cap.nullable(),
  /** Hourly caps of single agents, instead of `agent_hourly`. */
  agents: boundedRecord(nameSchema, cap, MAX_CAPPED_AGENTS, 'agents'),
  /** Executions that may run at once. */
  concurrency: z.int().min(1).max(100_000).nullable(),
  /** Executions that may be queued at once. */
  max_queued: z.int().min(0).max(10_000_000).nullable(),
  /** Share of the fleet under contention, relative to other tenants. */
  weight: z.number().min(0.01).max(100),
  /** Sustained starts per second. Null for no rate limit. */
  rate_per_second: z.number().min(0.001).max(100_000).nullable(),
  burst: z.int().min(1).max(100_000),
  /** CPU seconds per UTC day, or null. Admission reserves the maximum, the end counts the real use. */
  tenant_daily_cpu_seconds: cap.nullable().default(null),
  /** Cost per UTC day in micro-units, or null. Prices are in the workers' configuration. */
  tenant_daily_cost: z.int().min(0).max(MOST_COST).nullable().default(null),
})
/** Has no defaults, like `tenantPolicyPatchSchema`. */
export const tenantCapsPatchSchema = tenantCapsSchema
  .extend({
    tenant_daily_cpu_seconds: cap.nullable(),
    tenant_daily_cost: z.int().min(0).max(MOST_COST).nullable(),
  })
  .partial()
export type TenantCaps = z.infer<typeof tenantCapsSchema>

export const DEFAULT_TENANT_CAPS: TenantCaps = {
  tenant_daily: null,
  agent_hourly: null,
  agents: {},
  concurrency: null,
  max_queued: null,
  weight: 1,
  rate_per_second: null,
  burst: 1,
  tenant_daily_cpu_seconds: null,
  tenant_daily_cost: null,
}

/** Fleet-wide defaults behind `null`. */
export const FLEET_DEFAULTS = {
  tenant_daily: 1000,
  agent_hourly: 100,
  /**
   * As many as the fleet has slots, minus the share that a tenant with long runs leaves to others
   * (libs/queue/src/lua/include/slots.lua).
   */
  concurrency: 100_000,
  max_queued: 10_000,
} as const

/** Settings for a group of agents. A template opts its agents into sandboxing. */
export const templateSchema = z.strictObject({
  template_id: nameSchema,
  tenant_id: nameSchema,
  /** Null when the template does not opt in. */
  sandbox: z
    .strictObject({
      environment: environmentSchema,
      /** For these the stricter of the template and the tenant applies. */
      network: networkSchema.optional(),
      min_isolation: isolationSchema.optional(),
      retention_days: z.int().min(1).max(180).optional(),
      encrypt_outputs: z.boolean().optional(),
    })
    .nullable(),
})
export type Template = z.infer<typeof templateSchema>

export const apiKeyScopeSchema = z.union([z.literal('admin'), z.strictObject({ tenant_id: nameSchema })])
export type ApiKeyScope = z.infer<typeof apiKeyScopeSchema>
