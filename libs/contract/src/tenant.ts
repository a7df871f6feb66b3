/** Per-tenant policy and caps: data in Postgres, cached in Redis, live without restart. */
import { z } from 'zod'
import { isolationSchema } from './isolation.ts'
import { BOUNDS, DEFAULT_CAPS, DEFAULT_LIMITS, MAX_LIMITS } from './limits.ts'
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

/** The most that a request may ask for by `limits`: at least the default, which every request may have. */
const artifactLimit = (name: 'artifact_bytes' | 'artifacts_total_bytes' | 'artifact_count') =>
  z.int().min(DEFAULT_LIMITS[name]).max(MAX_LIMITS[name])
const ARTIFACT_LIMITS = {
  max_artifact_bytes: artifactLimit('artifact_bytes'),
  max_artifacts_total_bytes: artifactLimit('artifacts_total_bytes'),
  max_artifact_count: artifactLimit('artifact_count'),
}

/** Bound agents of one tenant: their names and templates then take 256 KiB at most. */
const MAX_BOUND_AGENTS = 1000
const templatesSchema = z.strictObject({
  /** Executions that no template holds for are refused. */
  required: z.boolean(),
  /** Agents and the templates that hold for them, whatever a request names. */
  agents: z
    .record(nameSchema, nameSchema)
    .refine(
      (agents) => Object.keys(agents).length <= MAX_BOUND_AGENTS,
      `expected at most ${MAX_BOUND_AGENTS} agents`,
    ),
})

const outputRetention = z.int().min(1).max(180).nullable()

/** What an operator decides about a tenant. */
export const tenantPolicySchema = z.strictObject({
  tenant_id: nameSchema,
  sandbox_enabled: z.boolean(),
  compliance_tier: z.enum(COMPLIANCE_TIERS),
  /** Never lowered by the caller or by fallback. */
  min_isolation: isolationSchema,
  /** Environments whose place to run is provisioned for the tenant. */
  environments: z.array(environmentSchema),
  retention_days: z.int().min(1).max(180),
  /** Literal values (12 bytes or more each) that are redacted from everything the tenant's programs print. */
  redact: z.array(z.string().min(12).max(4096)).max(64),
  /** The most that a program may reach; a request can only ask for less. Private addresses are refused whatever stands here. */
  network: networkSchema.default('public'),
  /** Packages that `install` may fetch: `name`, `name==1.2.*`, `@scope/*`, `*`. None by default. */
  packages: packagesSchema.default({ pypi: [], npm: [] }),
  /** Programs that `command` may name: hygiene, not isolation. `allow: null` allows all that `block` does not name. */
  commands: commandsSchema.default({ allow: null, block: [] }),
  /** Who must run under a template. A key can be bound to one besides. */
  templates: templatesSchema.default({ required: false, agents: {} }),
  /** Full outputs and artifacts are stored encrypted. */
  encrypt_outputs: z.boolean().default(false),
  /** Days after which full outputs and artifacts go where that is before their rows; null: with these. */
  output_retention_days: outputRetention.default(null),
  max_artifact_bytes: ARTIFACT_LIMITS.max_artifact_bytes.default(DEFAULT_LIMITS.artifact_bytes),
  max_artifacts_total_bytes: ARTIFACT_LIMITS.max_artifacts_total_bytes.default(
    DEFAULT_LIMITS.artifacts_total_bytes,
  ),
  max_artifact_count: ARTIFACT_LIMITS.max_artifact_count.default(DEFAULT_LIMITS.artifact_count),
  /** Executions with a `run_id` share the session of their run, unless they say otherwise. */
  run_sessions: z.boolean().default(false),
})
export type TenantPolicy = z.infer<typeof tenantPolicySchema>

/** Any of a policy's fields. What is left out stays left out: `partial()` alone would fill in defaults, and so reset it. */
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

/** The rules of a tenant's policy when nobody decided about them. */
export const DEFAULT_TENANT_RULES: Pick<
  TenantPolicy,
  | 'network'
  | 'packages'
  | 'commands'
  | 'templates'
  | 'encrypt_outputs'
  | 'output_retention_days'
  | 'max_artifact_bytes'
  | 'max_artifacts_total_bytes'
  | 'max_artifact_count'
  | 'run_sessions'
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
/** A billion units: with what is in flight still far below 2^53, so that Lua and JavaScript count exactly. */
const MOST_COST = 1_000_000_000 * MICRO
/** Caps and queue limits of a tenant; null means the fleet's default. A cap of 0 is the kill switch. */
export const tenantCapsSchema = z.strictObject({
  tenant_daily: cap.nullable(),
  agent_hourly: cap.nullable(),
  /** Caps of single agents, before `agent_hourly`. */
  agents: z.record(nameSchema, cap),
  /** Executions that run at once; null follows the fleet. */
  concurrency: z.int().min(1).max(100_000).nullable(),
  /** Executions that wait at once. */
  max_queued: z.int().min(0).max(10_000_000).nullable(),
  /** Share of the fleet under contention, relative to 1. */
  weight: z.number().min(0.01).max(100),
  /** Sustained starts per second; null for no rate limit. */
  rate_per_second: z.number().min(0.001).max(100_000).nullable(),
  burst: z.int().min(1).max(100_000),
  /** CPU seconds of a UTC day; null for no cap. Reserved when an attempt is admitted, settled with what it used. */
  tenant_daily_cpu_seconds: cap.nullable().default(null),
  /** Cost of a UTC day in micro-units; null for no cap. Prices are configuration of the workers. */
  tenant_daily_cost: z.int().min(0).max(MOST_COST).nullable().default(null),
})
/** Any of the caps. What is left out stays left out: `partial()` alone would fill in defaults, and so reset it. */
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
  ...DEFAULT_CAPS,
  /**
   * As many as the fleet has slots, less what a tenant of long runs leaves to others
   * (libs/queue/src/lua/include/slots.lua).
   */
  concurrency: 100_000,
  max_queued: 10_000,
} as const

/** Population-level settings: a template opts its agents into sandboxing. */
export const templateSchema = z.strictObject({
  template_id: nameSchema,
  tenant_id: nameSchema,
  /** Null: the template does not opt in. */
  sandbox: z
    .strictObject({
      environment: environmentSchema,
      /** Stricter than the tenant's own where they are set; the stricter of both holds. */
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

/** One row of `sandbox_invocations`, as the audit API shows it. */
export const auditRowSchema = z.strictObject({
  execution_id: z.string(),
  attempt: z.int().min(1),
  tenant_id: z.string(),
  agent_id: z.string(),
  user_id: z.string().nullable(),
  run_id: z.string().nullable(),
  template_id: z.string().nullable(),
  tool_call_id: z.string().nullable(),
  session_id: z.string().nullable(),
  environment_id: z.string(),
  invocation_source: z.enum(['queue', 'chat', 'scheduled', 'composition']),
  backend: z.string().nullable(),
  isolation: isolationSchema.nullable(),
  interpreter_id: z.string().nullable(),
  /** What the vendor's own logs call the sandbox; null where no sandbox of a vendor was opened. */
  vendor_ref: z.string().max(BOUNDS.vendorRefLength).nullable().default(null),
  /** Preferred backends that could not open a sandbox, each with the word for why; null when there were none. */
  passed_over: z.string().max(BOUNDS.passedOverLength).nullable().default(null),
  started_at: z.iso.datetime(),
  finished_at: z.iso.datetime(),
  duration_ms: z.number().min(0),
  queue_ms: z.number().min(0),
  session_start_ms: z.number().min(0).nullable(),
  /** What the vendor itself says that the run took, in its own unit; null where it says nothing. */
  service_execution_time: z.number().min(0).nullable().default(null),
  exit_status: z.string(),
  ending: z.string(),
  exit_code: z.int().nullable(),
  error_class: z.string().nullable(),
  failure_reason: z.string().max(BOUNDS.failureReasonLength).nullable(),
  quota_dimension: z.string().nullable(),
  /** True when this attempt counts against the caps: the counter of a window equals the rows with it. */
  quota_charged: z.boolean(),
  /** When admission charged it (Redis clock); null when not charged. */
  charged_at: z.iso.datetime().nullable(),
  stdout_bytes: z.int().min(0),
  stderr_bytes: z.int().min(0),
  stdout_truncated: z.boolean(),
  stderr_truncated: z.boolean(),
  stdout_ref: z.string().nullable(),
  stderr_ref: z.string().nullable(),
  redaction_count: z.int().min(0),
  peak_memory_mb: z.number().min(0).nullable(),
  cpu_ms: z.number().min(0).nullable(),
  /** CPU milliseconds that the day was charged; null when not charged. Estimated where `cpu_ms` is null. */
  charged_cpu_ms: z.int().min(0).nullable(),
  /** Memory limit × run time; null when not charged. */
  charged_gb_seconds: z.number().min(0).nullable(),
  /** Cost in micro-units, by the prices of the moment; null when not charged. */
  cost: z.int().min(0).nullable(),
  outbound_hosts: z.array(z.string()),
  /** Lowercase hex SHA-256 of the program as submitted. */
  executed_code_hash: z.string().regex(/^[0-9a-f]{64}$/),
  trace_id: z.string().nullable(),
  retention_days: z.int().min(1).max(180),
})
export type AuditRow = z.infer<typeof auditRowSchema>
