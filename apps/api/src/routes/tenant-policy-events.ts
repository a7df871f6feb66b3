/** GET /v1/tenants/{id}/policy/events: who changed what of a tenant's policy, caps and templates, raw SQL included. */
import { z } from 'zod'
import { requireTenant } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import {
  changeEventSchema,
  cursorQuery,
  DEFAULT_PAGE,
  FAILURES,
  limitQuery,
  nextCursorSchema,
  tenantParams,
} from '../wire-schemas.ts'

const eventSchema = changeEventSchema(
  z.string().meta({ description: 'created, deleted, template, or the part that changed.' }),
).extend({ tenant_id: z.string() })

const query = z.strictObject({
  limit: limitQuery.optional(),
  cursor: cursorQuery.optional(),
})

/** Adds the route. */
export function tenantPolicyEvents(app: App, context: RouteContext): void {
  app.get(
    '/tenants/:id/policy/events',
    {
      schema: {
        operationId: 'listPolicyEvents',
        tags: ['tenants'],
        summary: 'Changes of policy, caps and templates, newest first.',
        description:
          'Of values to redact only their count is shown. Events stay when their tenant is deleted.',
        params: tenantParams,
        querystring: query,
        response: {
          200: z.strictObject({ events: z.array(eventSchema), next_cursor: nextCursorSchema }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const { id } = request.params
      requireTenant(request, id)
      const { limit = DEFAULT_PAGE, cursor } = request.query
      const of = { list: 'policy events', tenantId: id }
      const before = await context.cursors.open(of, cursor)
      // One more than asked for tells whether there is another page.
      const found = await context.store.tenants.events(id, {
        limit: limit + 1,
        ...(before === undefined ? {} : { before: Number(before) }),
      })
      const events = found.slice(0, limit)
      const last = found.length > limit ? String(events.at(-1)?.id ?? '') : null
      return { events, next_cursor: await context.cursors.seal(of, last) }
    },
  )
}
