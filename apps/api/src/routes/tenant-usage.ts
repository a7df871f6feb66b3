/**
 * GET /v1/tenants/{id}/usage. Two questions share the path: without a range, what the caps have left now (from the
 * counters); with `from`, `to` or `group_by`, what was used and what it cost (from the audit rows).
 */
import { cpuUseSchema, nameSchema, windowUseSchema } from '@cofferdam/contract'
import { USAGE_GROUPS } from '@cofferdam/store'
import { z } from 'zod'
import { requireTenant } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, tenantParams, timeQuery } from '../wire-schemas.ts'

const DAY_MS = 86_400_000
/** The range when the caller names no start: as long as rows are kept by default. */
const DEFAULT_RANGE_DAYS = 30

const nowSchema = z.strictObject({
  tenant_daily: windowUseSchema,
  agent_hourly: windowUseSchema.nullable().meta({ description: 'Null unless ?agent_id= names an agent.' }),
  tenant_daily_cpu: cpuUseSchema
    .extend({ reserved: z.number().min(0).meta({ description: 'For attempts that run now.' }) })
    .nullable()
    .meta({ description: 'Seconds; null without this cap.' }),
  tenant_daily_cost: windowUseSchema
    .extend({ reserved: z.int().min(0) })
    .nullable()
    .meta({ description: 'Micro-units; null without this cap.' }),
  concurrency: z.strictObject({ running: z.int(), limit: z.int() }),
  seeded: z.boolean().meta({ description: 'False while the counters may be low, after a loss of Redis.' }),
})

const sumsSchema = z.strictObject({
  calls: z.int().min(0).meta({ description: 'Charged attempts.' }),
  failed: z.int().min(0).meta({ description: 'Those of them that did not end ok.' }),
  cpu_ms: z.number().min(0),
  gb_seconds: z.number().min(0),
  run_ms: z.number().min(0),
  cost: z.int().min(0).meta({ description: 'Micro-units.' }),
})

const reportSchema = z.strictObject({
  tenant_id: nameSchema,
  from: z.iso.datetime(),
  to: z.iso.datetime(),
  group_by: z.enum(USAGE_GROUPS),
  total: sumsSchema,
  groups: z
    .array(sumsSchema.extend({ key: z.string().nullable() }))
    .meta({ description: 'By UTC day in order; by agent or backend, the dearest first.' }),
  truncated: z.boolean().meta({ description: 'There are more groups than these; total has all of them.' }),
})

const query = z.strictObject({
  agent_id: nameSchema.optional(),
  from: timeQuery
    .optional()
    .meta({ description: `Charged at or after; default ${DEFAULT_RANGE_DAYS} days before to.` }),
  to: timeQuery.optional().meta({ description: 'Charged before; default now.' }),
  group_by: z.enum(USAGE_GROUPS).optional().meta({ description: 'Default day.' }),
})

/** Adds the route. */
export function tenantUsage(app: App, context: RouteContext): void {
  app.get(
    '/tenants/:id/usage',
    {
      schema: {
        operationId: 'getUsage',
        tags: ['tenants'],
        summary: 'What a tenant has used of its caps; with a range, what it used and what that cost.',
        description:
          'With from, to or group_by: sums over audit rows of at most 186 days. Prices are those of the moment of each ending.',
        params: tenantParams,
        querystring: query,
        response: { 200: z.union([nowSchema, reportSchema]), ...FAILURES },
      },
    },
    async (request) => {
      const { id } = request.params
      requireTenant(request, id)
      const { agent_id, from, to, group_by } = request.query
      if (from === undefined && to === undefined && group_by === undefined)
        return context.admission.usage(id, agent_id)
      const until = to === undefined ? context.now() : Date.parse(to)
      const since = from === undefined ? until - DEFAULT_RANGE_DAYS * DAY_MS : Date.parse(from)
      const range = { from: new Date(since).toISOString(), to: new Date(until).toISOString() }
      const groupBy = group_by ?? 'day'
      const report = await context.store.usage({ tenantId: id, ...range, groupBy })
      return { tenant_id: id, ...range, group_by: groupBy, ...report }
    },
  )
}
