/** GET and PUT /v1/tenants/{id}/caps. */
import { tenantCapsSchema } from '@cofferdam/contract'
import { actorOf, requireTenant } from '../authenticate.ts'
import { applyCaps } from '../make-live.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, tenantParams } from '../wire-schemas.ts'
import { findTenant } from './tenants.ts'

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
          'A cap of 0 is the kill switch: nothing starts any more; POST /v1/tenants/{id}/cancel stops what runs. Answers 503 when it is stored but not live yet; repeat it.',
        params: tenantParams,
        body: tenantCapsSchema,
        response: { 200: tenantCapsSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { id } = request.params
      const { caps } = await context.store.tenants.setCaps(id, request.body, actorOf(request))
      await applyCaps(context, id)
      return caps
    },
  )
}
