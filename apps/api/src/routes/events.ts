/**
 * GET /v1/tenants/{id}/policy/events: changes of one tenant. GET /v1/events: changes of all tenants and of
 * the fleet.
 */
import type { FleetEvent } from '@cofferdam/store'
import { z } from 'zod'
import { tenantFilter } from '../authenticate.ts'
import { cutPage } from '../cursors.ts'
import type { App, RouteContext } from '../route-context.ts'
import {
  changeEventSchema,
  cursorQuery,
  DEFAULT_PAGE,
  FAILURES,
  limitQuery,
  namedFields,
  nextCursorSchema,
  tenantParams,
  tenantQuery,
  viaSchema,
} from '../wire-schemas.ts'

const tenantEventSchema = changeEventSchema(
  z.string().meta({
    description:
      'The part of policy or caps that changed, or what was done: created, deleted, template, key_created, ' +
      'key_revoked, callback_secret_rotated, execution_cancelled, tenant_cancelled, session_ended ' +
      'and others.',
    example: 'caps',
  }),
).extend({ via: viaSchema, tenant_id: z.string().meta({ description: 'The tenant.', example: 'demo' }) })

/** The kind of an event, as `event_type` shows it. */
const kindQuery = z
  .string()
  .regex(/^[a-z][a-z_]{0,39}$/, 'expected a kind of event, such as caps')
  .meta({ description: 'Only events of this kind. Default: all.', example: 'caps' })

const fleetEventSchema = tenantEventSchema.extend({
  tenant_id: z.string().nullable().meta({
    description: 'The tenant. Null for the fleet: admin_key_created, admin_key_revoked.',
    example: 'demo',
  }),
})

const eventQuery = z.strictObject({
  event_type: kindQuery.optional(),
  limit: limitQuery.optional(),
  cursor: cursorQuery.optional(),
})
type EventQuery = z.output<typeof eventQuery>

const STAYS =
  'Changes by raw SQL are included. Instead of values to redact, only their number is shown. Events stay ' +
  'when their tenant is deleted.'

export function events(app: App, { cursors, store }: RouteContext): void {
  app.get(
    '/tenants/:id/policy/events',
    {
      schema: {
        operationId: 'listPolicyEvents',
        tags: ['tenants'],
        summary:
          'Who changed or did what: policy, caps, templates, keys, cancels, ends of sessions. Newest first.',
        description: STAYS,
        params: tenantParams,
        querystring: eventQuery,
        response: {
          200: z.strictObject({
            events: z.array(tenantEventSchema).meta({ description: 'One page of changes.' }),
            next_cursor: nextCursorSchema,
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const { id } = request.params
      return cursors.page({ list: 'policy events', tenantId: id }, request.query.cursor, async (after) => {
        const { rows, next_cursor } = await pageOf(request.query, after, (asked) =>
          store.tenants.events(id, asked),
        )
        return { events: rows, next_cursor }
      })
    },
  )

  app.get(
    '/events',
    {
      schema: {
        operationId: 'listEvents',
        tags: ['tenants'],
        summary:
          'Who changed or did what in the whole fleet: also admin keys made and revoked. Newest first.',
        description: `A key of a tenant sees its tenant only. ${STAYS}`,
        querystring: eventQuery.extend({ tenant_id: tenantQuery }),
        response: {
          200: z.strictObject({
            events: z.array(fleetEventSchema).meta({ description: 'One page of changes.' }),
            next_cursor: nextCursorSchema,
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const { query } = request
      const tenantId = tenantFilter(request, query.tenant_id)
      return cursors.page({ list: 'events', tenantId }, query.cursor, async (after) => {
        const { rows, next_cursor } = await pageOf<FleetEvent>(query, after, (asked) =>
          tenantId === null ? store.tenants.allEvents(asked) : store.tenants.events(tenantId, asked),
        )
        return { events: rows, next_cursor }
      })
    },
  )
}

async function pageOf<E extends FleetEvent>(
  { limit = DEFAULT_PAGE, event_type: type }: EventQuery,
  after: string | undefined,
  read: (asked: { limit: number; before?: number; types?: string[] }) => Promise<E[]>,
): Promise<{ rows: E[]; next_cursor: string | null }> {
  const before = after === undefined ? undefined : Number(after)
  const types = type === undefined ? undefined : [type]
  const found = await read({ limit: limit + 1, ...namedFields({ before, types }) })
  return cutPage(found, limit, (event) => String(event.id))
}
