/** GET and PUT /v1/tenants/{id}/caps, and GET /v1/tenants/{id}/usage. */
import { nameSchema, tenantCapsSchema, windowUseSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { actorOf, requireTenant } from '../authenticate.ts'
import { applyCaps } from '../make-live.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, tenantParams } from '../wire-schemas.ts'
import { findTenant } from './tenants.ts'

const usageSchema = z.strictObject({
  tenant_daily: windowUseSchema,
  agent_hourly: windowUseSchema.nullable().meta({ description: 'Null unless ?agent_id= names an agent.' }),
  concurrency: z.strictObject({ running: z.int(), limit: z.int() }),
  seeded: z.boolean().meta({ description: 'False while the counters may be low, after a loss of Redis.' }),
})

/** Adds the routes. */
export function tenantCaps(app: App, context: RouteContext): void {
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
    async (request) => {
      requireTenant(request, request.params.id)
      return (await findTenant(context, request.params.id)).caps
    },
  )

  app.put(
    '/tenants/:id/caps',
    {
      config: { admin: true },
      schema: {
        operationId: 'putCaps',
        tags: ['tenants'],
        summary: 'Replace the caps of a tenant; live at the next admission. Admin.',
        description:
          'A cap of 0 is the kill switch. Answers 503 when it is stored but not live yet; repeat it.',
        params: tenantParams,
        body: tenantCapsSchema,
        response: { 200: tenantCapsSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { id } = request.params
      const { caps } = await context.store.tenants.setCaps(id, request.body, actorOf(request))
      await applyCaps(context, id, caps)
      return caps
    },
  )

  app.get(
    '/tenants/:id/usage',
    {
      schema: {
        operationId: 'getUsage',
        tags: ['tenants'],
        summary: 'What a tenant has used of its caps.',
        params: tenantParams,
        querystring: z.strictObject({ agent_id: nameSchema.optional() }),
        response: { 200: usageSchema, ...FAILURES },
      },
    },
    async (request) => {
      requireTenant(request, request.params.id)
      return context.admission.usage(request.params.id, request.query.agent_id)
    },
  )
}
