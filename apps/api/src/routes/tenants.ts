/** POST and GET /v1/tenants, GET /v1/tenants/{id}, and POST /v1/tenants/{id}/cancel. */
import {
  CofferdamError,
  tenantCapsPatchSchema,
  tenantPolicySchema,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { Tenant } from '@cofferdam/store'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { actorOf, isAdmin } from '../authenticate.ts'
import { cutPage } from '../cursors.ts'
import { applyCaps } from '../make-live.ts'
import { recordAction } from '../record-action.ts'
import type { App, RouteContext } from '../route-context.ts'
import {
  agentQuery,
  cursorQuery,
  FAILURES,
  labelSchema,
  limitQuery,
  MAX_PAGE,
  namedFields,
  nameRuleProblems,
  nextCursorSchema,
  readableTenantSchema,
  tenantParams,
  tenantSchema,
} from '../wire-schemas.ts'

/** Absent fields take the store's defaults. */
const newTenantSchema = tenantPolicySchema
  .partial()
  .required({ tenant_id: true })
  .extend({
    caps: tenantCapsPatchSchema.optional().meta({ description: 'Its caps. Default: those of the fleet.' }),
  })
  .superRefine(({ packages }, context) => nameRuleProblems(packages, context))

/** One call cancels page after page for this long and then answers. Well below the timeouts of proxies. */
const CANCEL_MS = 5000

const cancelSchema = z.strictObject({
  agent_id: agentQuery,
  state: z
    .enum(['waiting', 'running', 'all'])
    .meta({ description: 'waiting: delayed and queued ones. running: those that a worker has.' }),
  reason: labelSchema.optional().meta({
    description: 'Why, for results and audit rows. Default: cancelled by an operator.',
    example: 'out of budget',
  }),
  cursor: cursorQuery.optional(),
})

const cancelledSchema = z.strictObject({
  cancelled: z.int().min(0).meta({ description: 'Ended by this call; they will not run.', example: 40 }),
  cancelling: z
    .int()
    .min(0)
    .meta({ description: 'Running ones whose workers were told to stop them.', example: 2 }),
  next_cursor: nextCursorSchema,
})

export function tenants(app: App, context: RouteContext): void {
  const { cursors, store } = context

  app.post(
    '/tenants',
    {
      config: { admin: true },
      schema: {
        operationId: 'createTenant',
        tags: ['tenants'],
        summary: 'Create a tenant. Admin.',
        body: newTenantSchema,
        response: { 201: tenantSchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      const { caps, tenant_id, ...policy } = request.body
      const tenant = await store.tenants.create(
        { tenant_id, policy: namedFields(policy), caps: namedFields(caps ?? {}) },
        actorOf(request),
      )
      // The tenant exists now, so a repeated request would be a conflict.
      await applyCaps(context, tenant_id, `Send its caps: PUT /v1/tenants/${tenant_id}/caps.`)
      return reply.code(201).header('location', `/v1/tenants/${tenant_id}`).send(tenant)
    },
  )

  app.get(
    '/tenants',
    {
      config: { admin: true },
      schema: {
        operationId: 'listTenants',
        tags: ['tenants'],
        summary: 'All tenants, by id. Admin.',
        querystring: z.strictObject({
          limit: limitQuery.optional().meta({
            description: `Rows of one page, 1 to ${MAX_PAGE}. Default: ${MAX_PAGE}.`,
          }),
          cursor: cursorQuery.optional().meta({
            description: 'next_cursor of the page before. Its content is opaque. Default: the first page.',
          }),
        }),
        response: {
          200: z.strictObject({
            tenants: z.array(tenantSchema).meta({ description: 'One page of tenants.' }),
            next_cursor: nextCursorSchema,
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const { limit = MAX_PAGE, cursor } = request.query
      return cursors.page({ list: 'tenants', tenantId: null }, cursor, async (after) => {
        const found = await store.tenants.list({ limit: limit + 1, ...namedFields({ after }) })
        const { rows, next_cursor } = cutPage(found, limit, ({ policy }) => policy.tenant_id)
        return { tenants: rows, next_cursor }
      })
    },
  )

  app.get(
    '/tenants/:id',
    {
      schema: {
        operationId: 'getTenant',
        tags: ['tenants'],
        summary: 'Policy and caps of a tenant.',
        description: REDACT_IS_FOR_ADMINS,
        params: tenantParams,
        response: { 200: readableTenantSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { policy, caps } = await findTenant(context, request.params.id)
      return { policy: readablePolicy(request, policy), caps }
    },
  )

  app.post(
    '/tenants/:id/cancel',
    {
      config: { admin: true },
      schema: {
        operationId: 'cancelTenant',
        tags: ['tenants'],
        summary: 'Cancel what a tenant or one of its agents has waiting or running. Admin.',
        description:
          `Works for about ${CANCEL_MS / 1000} s, newest first; call again with next_cursor until it is ` +
          `null. What is enqueued ` +
          'after the first call is not touched: set a cap to 0 before, so that nothing new starts. May be ' +
          'repeated.',
        params: tenantParams,
        body: cancelSchema,
        response: { 200: cancelledSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { id } = request.params
      const { agent_id, state, reason = 'cancelled by an operator', cursor } = request.body
      const untilMs = context.now() + CANCEL_MS
      const total = { cancelled: 0, cancelling: 0 }
      return cursors.page({ list: 'cancel', tenantId: id }, cursor, async (after) => {
        let before: string | null = after ?? null
        do {
          const page = await context.producer.cancelTenant(id, {
            state,
            reason,
            ...namedFields({ agentId: agent_id, before: before ?? undefined }),
          })
          total.cancelled += page.cancelled
          total.cancelling += page.cancelling
          before = page.next
        } while (before !== null && context.now() < untilMs && !context.draining.aborted)
        const asked = { agent_id: agent_id ?? null, state, reason }
        await recordAction(context, request, id, 'tenant_cancelled', { ...asked, ...total })
        return { ...total, next_cursor: before }
      })
    },
  )
}

/** Policy and caps of a tenant. Throws `not_found`. */
export async function findTenant(context: RouteContext, tenantId: string): Promise<Tenant> {
  const tenant = await context.store.tenants.get(tenantId)
  if (tenant === null) throw new CofferdamError('not_found', 'There is no tenant of that id.')
  return tenant
}

/** For the description of a route that answers with `readablePolicy`. */
export const REDACT_IS_FOR_ADMINS =
  'The values to redact are secrets. Only an admin key sees them; for other keys the field is left out.'

/** The policy as the caller may see it: an admin key whole, a key of the tenant without `redact`. */
export function readablePolicy(
  request: FastifyRequest,
  { redact, ...rest }: TenantPolicy,
): Omit<TenantPolicy, 'redact'> & { redact?: string[] } {
  return isAdmin(request) ? { ...rest, redact } : rest
}
