/** Per-tenant policy and templates. Changes take effect without a restart. */
import { z } from 'zod'
import { boundedRecord } from './bounded-record.ts'
import { isolationSchema } from './isolation.ts'
import { DEFAULT_LIMITS, MAX_LIMITS } from './limits.ts'
import { nameSchema } from './name.ts'
import { environmentSchema, networkSchema } from './network.ts'

/** Which programs are kept for a rerun: none, those that did not end ok, or all. */
export const KEEP_PROGRAM = ['never', 'errors', 'always'] as const

export const COMPLIANCE_TIERS = ['standard', 'regulated', 'hipaa'] as const

const packageRules = (example: string[]) =>
  z.array(z.string().min(1).max(256)).max(2000).meta({
    description: 'Packages and versions: `name`, `name==1.2.*`, `@scope/*` or `*`. At most 2,000.',
    example,
  })
const commandRule = z.string().min(1).max(256).regex(/\S/, 'expected a program')

/**
 * The highest value that a request may ask for. It is never below the default, because every request may use
 * the default.
 */
const artifactLimit = (name: 'artifact_bytes' | 'artifacts_total_bytes' | 'artifact_count', what: string) =>
  z
    .int()
    .min(DEFAULT_LIMITS[name])
    .max(MAX_LIMITS[name])
    .meta({
      description: `The highest limits.${name} that a request may ask for${what}.`,
      example: MAX_LIMITS[name],
    })

/** Agents of one tenant that are bound to a template. Their names and templates take at most 256 KiB. */
const MAX_BOUND_AGENTS = 1000

/** Fields with a default in a new policy. Here they have none, because a patch must not reset a field. */
const RULES = {
  network: networkSchema.meta({
    description:
      'What a program may reach. A request can only restrict it. If this is public, a request may list ' +
      'hosts with any port. Private addresses are always refused.',
  }),
  packages: z
    .strictObject({ pypi: packageRules(['requests', 'numpy==2.*']), npm: packageRules(['@types/*']) })
    .meta({ description: 'Packages that install may fetch. Default: none.' }),
  commands: z
    .strictObject({
      allow: z
        .array(commandRule)
        .max(512)
        .nullable()
        .meta({
          description: 'The only programs that may be named, at most 512. Null: all but those of block.',
          example: ['python3', 'ls'],
        }),
      block: z
        .array(commandRule)
        .max(512)
        .meta({ description: 'Programs that may not be named, at most 512.', example: ['curl', 'git push'] }),
    })
    .meta({
      description:
        'Programs that commands may name. No security boundary (docs/command-policy.md). Default: all.',
    }),
  templates: z
    .strictObject({
      required: z.boolean().meta({ description: 'Refuse executions that no template applies to.' }),
      agents: boundedRecord(nameSchema, nameSchema, MAX_BOUND_AGENTS, 'agents').meta({
        description:
          'The template of each agent. A request of that agent which names another template is refused.',
        example: { analyst: 'strict' },
      }),
    })
    .meta({
      description:
        'Which agents must run under a template. An API key can also be bound to one. Default: none.',
    }),
  encrypt_outputs: z.boolean().meta({ description: 'Store full outputs and artifacts encrypted.' }),
  output_retention_days: z.int().min(1).max(180).nullable().meta({
    description:
      'Days after which full outputs and artifacts are deleted. Null (default): together with their rows.',
    example: 7,
  }),
  max_artifact_bytes: artifactLimit('artifact_bytes', ', bytes'),
  max_artifacts_total_bytes: artifactLimit('artifacts_total_bytes', ', bytes'),
  max_artifact_count: artifactLimit('artifact_count', ''),
  run_sessions: z.boolean().meta({
    description: 'Executions with a run_id share the session of their run, unless they set session or reuse.',
  }),
  keep_program: z.enum(KEEP_PROGRAM).meta({
    description:
      'Which requests are kept when they end, to be run again: none (never, the default), those that did ' +
      'not end ok (errors), or all (always). They are deleted together with full outputs.',
  }),
  allow_emulation: z.boolean().meta({
    description:
      'Programs may run in a machine that is only emulated (isolation microvm-emulated), which is no ' +
      'boundary of security. Default: false.',
  }),
}

/** The rules of a new tenant's policy. */
export const DEFAULT_TENANT_RULES: { [Name in keyof typeof RULES]: z.output<(typeof RULES)[Name]> } = {
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
  keep_program: 'never',
  allow_emulation: false,
}

export const tenantPolicySchema = z.strictObject({
  tenant_id: nameSchema.meta({ description: 'The tenant.', example: 'demo' }),
  sandbox_enabled: z.boolean().meta({
    description:
      'False: every execution is refused, uncharged. Default: true if compliance_tier is standard, else ' +
      'false.',
  }),
  compliance_tier: z.enum(COMPLIANCE_TIERS).meta({
    description:
      'regulated and hipaa: code runs only under a template with strict settings. Default: standard.',
  }),
  min_isolation: isolationSchema.meta({
    description:
      'The weakest isolation that programs of the tenant may have. Neither a request nor fallback to ' +
      'another backend can lower it. Default: jail.',
  }),
  environments: z.array(environmentSchema).meta({
    description: 'Environments that are provisioned for the tenant. Default: both.',
    example: ['default-public'],
  }),
  retention_days: z.int().min(1).max(180).meta({
    description: 'Days after which audit rows, with results and outputs, are deleted. Default: 30.',
    example: 30,
  }),
  redact: z
    .array(z.string().min(12).max(4096))
    .max(64)
    .meta({
      description:
        'Literal values, 12 characters or more each, that are replaced in all output of the tenant’s ' +
        'programs. At most 64. Default: none.',
      example: ['a-secret-of-acme'],
    }),
  network: RULES.network.default(DEFAULT_TENANT_RULES.network),
  packages: RULES.packages.default(DEFAULT_TENANT_RULES.packages),
  commands: RULES.commands.default(DEFAULT_TENANT_RULES.commands),
  templates: RULES.templates.default(DEFAULT_TENANT_RULES.templates),
  encrypt_outputs: RULES.encrypt_outputs.default(DEFAULT_TENANT_RULES.encrypt_outputs),
  output_retention_days: RULES.output_retention_days.default(DEFAULT_TENANT_RULES.output_retention_days),
  max_artifact_bytes: RULES.max_artifact_bytes.default(DEFAULT_TENANT_RULES.max_artifact_bytes),
  max_artifacts_total_bytes: RULES.max_artifacts_total_bytes.default(
    DEFAULT_TENANT_RULES.max_artifacts_total_bytes,
  ),
  max_artifact_count: RULES.max_artifact_count.default(DEFAULT_TENANT_RULES.max_artifact_count),
  run_sessions: RULES.run_sessions.default(DEFAULT_TENANT_RULES.run_sessions),
  keep_program: RULES.keep_program.default(DEFAULT_TENANT_RULES.keep_program),
  allow_emulation: RULES.allow_emulation.default(DEFAULT_TENANT_RULES.allow_emulation),
})
export type TenantPolicy = z.infer<typeof tenantPolicySchema>

/** Any fields of a policy. Has no defaults: `partial()` alone would fill them in, and so reset fields. */
export const tenantPolicyPatchSchema = tenantPolicySchema.omit({ tenant_id: true }).extend(RULES).partial()

/** Settings for a group of agents. A template opts its agents into sandboxing. */
export const templateSchema = z.strictObject({
  template_id: nameSchema.meta({ description: 'The template.', example: 'strict' }),
  tenant_id: nameSchema.meta({ description: 'Its tenant.', example: 'demo' }),
  sandbox: z
    .strictObject({
      environment: environmentSchema.meta({
        description: 'The environment that its agents run in. internal-only has no network.',
      }),
      network: networkSchema.optional().meta({
        description:
          'What a program may reach. The stricter of this and the tenant’s applies. Default: the tenant’s.',
      }),
      min_isolation: isolationSchema.optional().meta({
        description:
          'The weakest isolation. The stricter of this and the tenant’s applies. Default: the tenant’s.',
      }),
      retention_days: z
        .int()
        .min(1)
        .max(180)
        .optional()
        .meta({
          description:
            'Days after which audit rows are deleted. The stricter of this and the tenant’s applies. ' +
            'Default: the tenant’s.',
          example: 7,
        }),
      encrypt_outputs: z
        .boolean()
        .optional()
        .meta({
          description:
            'Store full outputs encrypted. The stricter of this and the tenant’s applies. Default: the ' +
            'tenant’s.',
        }),
    })
    .nullable()
    .meta({ description: 'Settings of the sandboxes. Null: executions under this template are refused.' }),
})
export type Template = z.infer<typeof templateSchema>

export const apiKeyScopeSchema = z.union([
  z.literal('admin'),
  z.strictObject({
    tenant_id: nameSchema.meta({ description: 'The only tenant it is for.', example: 'demo' }),
  }),
])
export type ApiKeyScope = z.infer<typeof apiKeyScopeSchema>
