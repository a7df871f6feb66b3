/** GET, PUT and PATCH /v1/tenants/{id}/caps, and GET …/usage: what a tenant may use, and what it used. */
import {
  CofferdamError,
  cpuUseSchema,
  nameSchema,
  type TenantCaps,
  tenantCapsPatchSchema,
  tenantCapsSchema,
  timeSchema,
  windowUseSchema,
} from '@cofferdam/contract'
import { USAGE_GROUPS, type Author } from '@cofferdam/store'
import { z } from 'zod'
import { actorOf } from '../authenticate.ts'
import { applyCaps } from '../make-live.ts'
import type { App, RouteContext } from '../route-context.ts'
import { agentQuery, FAILURES, namedFields, tenantParams, timeQuery } from '../wire-schemas.ts'
import { findTenant } from './tenants.ts'

const DAY_MS = 86_400_000
/** The range when the caller names no start: the default retention of audit rows. */
const DEFAULT_RANGE_DAYS = 30

const usageNowSchema = z.strictObject({
  tenant_daily: windowUseSchema.meta({ description: 'Charged attempts of the tenant in the UTC day.' }),
  agent_hourly: windowUseSchema.nullable().meta({
    description: 'Charged attempts of the agent in the UTC hour. Null unless agent_id names one.',
  }),
  tenant_daily_cpu: cpuUseSchema
    .extend({
      reserved: z.number().min(0).meta({
        description: 'Held back for attempts that run now, CPU seconds.',
        example: 30,
      }),
    })
    .nullable()
    .meta({ description: 'CPU time of the tenant in the UTC day. Null without this cap.' }),
  tenant_daily_cost: windowUseSchema
    .extend({
      reserved: z.int().min(0).meta({
        description: 'Held back for attempts that run now, micro-units.',
        example: 900,
      }),
    })
    .nullable()
    .meta({ description: 'Cost of the tenant in the UTC day, micro-units. Null without this cap.' }),
  concurrency: z
    .strictObject({
      running: z.int().meta({ description: 'Attempts that run now.', example: 2 }),
      limit: z.int().meta({ description: 'Attempts that may run at once.', example: 4 }),
    })
    .meta({ description: 'Attempts at once.' }),
  seeded: z
    .boolean()
    .meta({ description: 'False while the counters may be too low, after a loss of Redis.' }),
})

const usageSumsSchema = z.strictObject({
  calls: z.int().min(0).meta({ description: 'Charged attempts.', example: 120 }),
  failed: z.int().min(0).meta({ description: 'Those of them that did not end ok.', example: 3 }),
  cpu_ms: z.number().min(0).meta({ description: 'CPU time charged, milliseconds.', example: 51_000 }),
  gb_seconds: z.number().min(0).meta({
    description: 'Memory limit × run time, in units of 1,024 MiB for a second.',
    example: 14.5,
  }),
  run_ms: z.number().min(0).meta({ description: 'Run time, milliseconds.', example: 58_000 }),
  cost: z.int().min(0).meta({ description: 'Cost, micro-units.', example: 1200 }),
})

const usageReportSchema = z.strictObject({
  tenant_id: nameSchema.meta({ description: 'The tenant.', example: 'demo' }),
  from: timeSchema.meta({ description: 'Start of the range.' }),
  to: timeSchema.meta({ description: 'End of the range, exclusive.' }),
  group_by: z.enum(USAGE_GROUPS).meta({ description: 'What groups stand for.' }),
  total: usageSumsSchema.meta({ description: 'The whole range.' }),
  groups: z
    .array(
      usageSumsSchema.extend({
        key: z.string().nullable().meta({
          description: 'The day, agent or backend. Null for attempts without one.',
          example: '2026-11-20',
        }),
      }),
    )
    .meta({ description: 'By UTC day in order; by agent or backend, the most expensive first.' }),
  truncated: z
    .boolean()
    .meta({ description: 'Whether there are more groups than these. total has all of them.' }),
})

const usageQuery = z.strictObject({
  agent_id: agentQuery.meta({
    description: 'The agent whose agent_hourly is shown. Not with from, to or group_by. Default: none.',
    example: 'analyst',
  }),
  from: timeQuery.optional().meta({
    description: `Charged at or after this time. Default: ${DEFAULT_RANGE_DAYS} days before the end.`,
  }),
  to: timeQuery.optional().meta({ description: 'Charged before this time. Default: now.' }),
  group_by: z.enum(USAGE_GROUPS).optional().meta({ description: 'What to group by. Default: day.' }),
})

export function tenantCaps(app: App, context: RouteContext): void {
  addCaps(app, context)
  addUsage(app, context)
}

function addCaps(app: App, context: RouteContext): void {
  app.get(
    '/tenants/:id/caps',
    {
      schema: {
        operationId: 'getCaps',
        tags: ['tenants'],
        summary: 'The caps of a tenant; null means the default of the fleet.',
        params: tenantParams,
        response: { 200: tenantCapsSchema, ...FAILURES },
      },
    },
    async (request) => (await findTenant(context, request.params.id)).caps,
  )

  const change = {
    config: { admin: true },
    schema: {
      tags: ['tenants'],
      description:
        'A cap of 0 is the kill switch: nothing starts any more; POST /v1/tenants/{id}/cancel stops what ' +
        'runs. ' +
        'Answers 503 if the change is stored but not live yet; then repeat the call.',
      params: tenantParams,
      response: { 200: tenantCapsSchema, ...FAILURES },
    },
  }

  app.put(
    '/tenants/:id/caps',
    {
      ...change,
      schema: {
        ...change.schema,
        operationId: 'putCaps',
        summary: 'Replace the caps of a tenant; live at the next admission. Admin.',
        body: tenantCapsSchema,
      },
    },
    async (request) => setCaps(request.params.id, request.body, actorOf(request)),
  )

  app.patch(
    '/tenants/:id/caps',
    {
      ...change,
      schema: {
        ...change.schema,
        operationId: 'patchCaps',
        summary: 'Change the named caps of a tenant; live at the next admission. Admin.',
        body: tenantCapsPatchSchema.refine(
          (patch) => Object.keys(patch).length > 0,
          'expected at least one field',
        ),
      },
    },
    async (request) => setCaps(request.params.id, namedFields(request.body), actorOf(request)),
  )

  async function setCaps(tenantId: string, caps: Partial<TenantCaps>, actor: Author): Promise<TenantCaps> {
    const changed = await context.store.tenants.setCaps(tenantId, caps, actor)
    await applyCaps(context, tenantId)
    return changed.caps
  }
}

/**
 * Two questions share the path. Without a range, the counters tell what the caps have left now. With
 * `from`, `to` or `group_by`, the audit rows tell what was used and what it cost.
 */
function addUsage(app: App, context: RouteContext): void {
  app.get(
    '/tenants/:id/usage',
    {
      schema: {
        operationId: 'getUsage',
        tags: ['tenants'],
        summary: 'What a tenant has used of its caps; with a range, what it used and what that cost.',
        description:
          'With from, to or group_by: sums over audit rows of at most 186 days. The cost of an attempt ' +
          'follows the prices at its end.',
        params: tenantParams,
        querystring: usageQuery,
        response: { 200: z.union([usageNowSchema, usageReportSchema]), ...FAILURES },
      },
    },
    async (request) => {
      const { id } = request.params
      const { agent_id, from, to, group_by: groupBy = 'day' } = request.query
      if (request.query.group_by === undefined && from === undefined && to === undefined)
        return context.admission.usage(id, agent_id)
      if (agent_id !== undefined)
        throw new CofferdamError(
          'invalid_request',
          'agent_id is for the counters of now. With from, to or group_by, send group_by=agent instead.',
        )
      const until = to === undefined ? context.now() : Date.parse(to)
      const since = from === undefined ? until - DEFAULT_RANGE_DAYS * DAY_MS : Date.parse(from)
      const range = { from: new Date(since).toISOString(), to: new Date(until).toISOString() }
      const report = await context.store.usage({ tenantId: id, ...range, groupBy })
      return { tenant_id: id, ...range, group_by: groupBy, ...report }
    },
  )
}
