/** GET, PUT and PATCH /v1/tenants/{id}/caps. */
import { tenantCapsPatchSchema, tenantCapsSchema, type TenantCaps } from '@cofferdam/contract'
import { namedFields } from '../named-fields.ts'
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

  const change = {
    config: { admin: true },
    schema: {
      tags: ['tenants'],
      description:
        'A cap of 0 is the kill switch: nothing starts any more; POST /v1/tenants/{id}/cancel stops what runs. Answers 503 when it is stored but not live yet; repeat it.',
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

  async function setCaps(tenantId: string, caps: Partial<TenantCaps>, actor: string): Promise<TenantCaps> {
    const changed = await context.store.tenants.setCaps(tenantId, caps, actor)
    await applyCaps(context, tenantId)
    return changed.caps
  }
}
