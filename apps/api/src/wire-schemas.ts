/** Schemas of the HTTP API only, and the names under which schemas appear in the OpenAPI document. */
import {
  acceptedSchema,
  artifactSchema,
  auditRowSchema,
  capsUseSchema,
  comparedSideSchema,
  comparisonSchema,
  errorBodySchema,
  executionEventSchema,
  executionIdSchema,
  executionRequestSchema,
  executionStateSchema,
  executionTraceSchema,
  executionWhySchema,
  nameSchema,
  queueTenantsSchema,
  rerunRequestSchema,
  rerunSchema,
  resultSchema,
  routineRunSchema,
  routineSchema,
  seriesSchema,
  statsSchema,
  templateSchema,
  textDiffSchema,
  tenantCapsSchema,
  tenantPolicyPatchSchema,
  tenantPolicySchema,
  timeSchema,
  type TenantPolicy,
} from '@cofferdam/contract'
import { packageRuleProblems } from '@cofferdam/egress'
import { z } from 'zod'

const failure = (description: string) => ({
  description,
  content: { 'application/json': { schema: errorBodySchema } },
})

/** Failures that every route can answer with. */
export const FAILURES = {
  '4xx': failure('The request was refused; `error.code` says why.'),
  '5xx': failure('It failed on our side; `error.retry` says whether the same request may work later.'),
} as const

export const executionParams = z.strictObject({
  id: executionIdSchema.meta({ description: 'The execution.' }),
})
export const tenantParams = z.strictObject({
  id: nameSchema.meta({ description: 'The tenant.', example: 'demo' }),
})

/** The tenant that a list or a call is about. */
export const tenantQuery = nameSchema.optional().meta({
  description:
    'The tenant. An admin key can name any tenant, and must name one if the call is about a single tenant. ' +
    'Default: the key’s.',
  example: 'demo',
})
export const agentQuery = nameSchema.optional().meta({
  description: 'Only what belongs to this agent. Default: all agents.',
  example: 'analyst',
})

/** The most rows of a page: 500 audit rows are about 600 KB of JSON. */
export const MAX_PAGE = 500

/** Rows of a page when the caller names no limit. */
export const DEFAULT_PAGE = 50

export const limitQuery = z
  .string()
  .regex(/^[1-9]\d{0,2}$/, `expected a whole number from 1 to ${MAX_PAGE}`)
  .transform(Number)
  .refine((n) => n <= MAX_PAGE, `expected a whole number from 1 to ${MAX_PAGE}`)
  .meta({ description: `Rows of one page, 1 to ${MAX_PAGE}. Default: ${DEFAULT_PAGE}.`, example: '50' })

export const cursorQuery = z.string().min(1).max(512).meta({
  description:
    'next_cursor of the page before, for the same tenant. Its content is opaque. Default: the first page.',
  example: 'AYx3…',
})

export const timeQuery = z.iso
  .datetime({ offset: true, error: 'expected an ISO 8601 time with zone, such as 2026-11-20T12:00:00Z' })
  .meta({ example: '2026-11-20T12:00:00Z' })

/** The longest wait for an ending. Load balancers commonly cut idle connections after 60 s. */
const MAX_WAIT_MS = 60_000

/** `?wait=` in milliseconds, from `30s`, `1.5s`, `1500ms` or `0`. Other unitless numbers are refused. */
export const waitSchema = z
  .string()
  .max(20)
  .regex(/^(0|\d{1,9}(\.\d{1,3})?(ms|s))$/, 'expected a duration such as 30s or 1500ms')
  .transform((text) => Math.round(Number.parseFloat(text) * (text.endsWith('ms') ? 1 : 1000)))
  .refine((ms) => ms <= MAX_WAIT_MS, 'expected at most 60s')
  .meta({
    description: 'How long to wait for the ending, 0 to 60s, such as `30s` or `1500ms`. Default: 0.',
    example: '30s',
  })

export const nextCursorSchema = z.string().nullable().meta({
  description: 'The cursor of the next page. Null on the last page.',
  example: 'AYx3…',
})

/** A tenant with everything that an operator decides about it. */
export const tenantSchema = z.strictObject({
  policy: tenantPolicySchema.meta({ description: 'What it may do.' }),
  caps: tenantCapsSchema.meta({ description: 'Its caps.' }),
})

/**
 * A policy as its tenant may read it. `redact` is left out rather than emptied. So a caller who writes back
 * what it read does not delete the values: a PUT without `redact` is refused, and a PATCH without it keeps
 * them.
 */
export const readablePolicySchema = tenantPolicySchema.extend({
  redact: tenantPolicySchema.shape.redact
    .optional()
    .meta({ description: 'Values that are redacted. They are secrets: only admin keys see them.' }),
})
export const readableTenantSchema = tenantSchema.extend({
  policy: readablePolicySchema.meta({ description: 'What it may do.' }),
})

/** What a PATCH of a policy may name: any field except the tenant. */
export const policyPatchSchema = tenantPolicyPatchSchema
  .refine((patch) => Object.keys(patch).length > 0, 'expected at least one field')
  .superRefine(({ packages }, context) => nameRuleProblems(packages, context))

/** Reports every invalid package rule. For use in `superRefine`. */
export function nameRuleProblems(
  packages: TenantPolicy['packages'] | undefined,
  context: z.RefinementCtx,
): void {
  if (packages === undefined) return
  for (const message of packageRuleProblems(packages))
    context.addIssue({ code: 'custom', path: ['packages'], message })
}

/** One line of text for humans. */
export const labelSchema = z
  .string()
  .min(1)
  .max(200)
  // eslint-disable-next-line no-control-regex
  .refine((text) => !/[\u0000-\u001f\u007f]/.test(text), 'expected no control characters')

/** Schemas that are components of the document. All others are written where they are used. */
export const COMPONENTS: readonly (readonly [string, z.ZodType])[] = [
  ['Accepted', acceptedSchema],
  ['Artifact', artifactSchema],
  ['AuditRow', auditRowSchema],
  ['CapsUse', capsUseSchema],
  ['Error', errorBodySchema],
  ['ComparedSide', comparedSideSchema],
  ['Comparison', comparisonSchema],
  ['ExecutionEvent', executionEventSchema],
  ['ExecutionRequest', executionRequestSchema],
  ['ExecutionResult', resultSchema],
  ['ExecutionState', executionStateSchema],
  ['ExecutionTrace', executionTraceSchema],
  ['ExecutionWhy', executionWhySchema],
  ['QueueTenants', queueTenantsSchema],
  ['Rerun', rerunSchema],
  ['RerunRequest', rerunRequestSchema],
  ['ReadableTenant', readableTenantSchema],
  ['ReadableTenantPolicy', readablePolicySchema],
  ['Routine', routineSchema],
  ['RoutineRun', routineRunSchema],
  ['TextDiff', textDiffSchema],
  ['SeriesFigures', seriesSchema],
  ['Stats', statsSchema],
  ['Template', templateSchema],
  ['Tenant', tenantSchema],
  ['TenantCaps', tenantCapsSchema],
  ['TenantPolicy', tenantPolicySchema],
]

/** A change that the database recorded. `eventType` is the schema of `event_type`. */
export const changeEventSchema = <T extends z.ZodType>(eventType: T) =>
  z.strictObject({
    id: z.int().meta({ description: 'Number of the change. Later changes have higher ones.', example: 41 }),
    actor: z.string().meta({
      description: 'Who changed it: key:ID for the API, the database role for raw SQL.',
      example: 'key:k_7',
    }),
    event_type: eventType,
    before: z.unknown().meta({ description: 'What was there. Null if it is new.', example: { weight: 1 } }),
    after: z
      .unknown()
      .meta({ description: 'What is there now. Null if it is gone.', example: { weight: 2 } }),
    source: z.enum(['api', 'reconciler', 'sql']).meta({
      description: 'How it was changed: by the API (api), by provisioning (reconciler), or by raw SQL (sql).',
    }),
    created_at: timeSchema.meta({ description: 'When it was changed.' }),
  })

/**
 * How a change was made when not with an API key: `ui` is the dashboard, where a person signs in with a
 * cookie.
 */
export const viaSchema = z.enum(['ui']).nullable().meta({
  description: 'ui when it was done on the dashboard. Null otherwise.',
})

/** The fields of `patch` that have a value: zod's `?: T | undefined` becomes the store's `?: T`. */
export function namedFields<T extends object>(patch: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const named = Object.entries(patch).filter(([, value]) => value !== undefined)
  return Object.fromEntries(named) as { [K in keyof T]?: Exclude<T[K], undefined> }
}
