/** POST and GET /v1/tenants, GET /v1/tenants/{id}, and GET, PUT, PATCH of its policy. */
import {
  CofferdamError,
  tenantCapsPatchSchema,
  tenantPolicySchema,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { Tenant } from '@cofferdam/store'
import { z } from 'zod'
import { actorOf, requireTenant } from '../authenticate.ts'
import { applyCaps, forgetPolicy } from '../make-live.ts'
import { namedFields } from '../named-fields.ts'
import type { App, RouteContext } from '../route-context.ts'
import {
  MAX_PAGE,
  cursorQuery,
  FAILURES,
  limitQuery,
  nextCursorSchema,
  nameRuleProblems,
  policyPatchSchema,
  tenantParams,
  tenantSchema,
} from '../wire-schemas.ts'

/** What is left out takes the store's defaults. */
const newTenantSchema = tenantPolicySchema
  .partial()
  .required({ tenant_id: true })
  .extend({ caps: tenantCapsPatchSchema.optional() })
  .superRefine(({ packages }, context) => nameRuleProblems(packages, context))

/** Adds the routes. */
export function tenants(app: App, context: RouteContext): void {
  const { store } = context

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
      // The tenant exists now, so the same request again would be a conflict.
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
        querystring: z.strictObject({ limit: limitQuery.optional(), cursor: cursorQuery.optional() }),
        response: {
          200: z.strictObject({ tenants: z.array(tenantSchema), next_cursor: nextCursorSchema }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const { limit = MAX_PAGE, cursor } = request.query
      const of = { list: 'tenants', tenantId: null }
      const after = await context.cursors.open(of, cursor)
      // One more than asked for tells whether there is another page.
      const found = await store.tenants.list({
        limit: limit + 1,
        ...(after === undefined ? {} : { after }),
      })
      const page = found.slice(0, limit)
      const last = found.length > limit ? (page.at(-1)?.policy.tenant_id ?? null) : null
      return { tenants: page, next_cursor: await context.cursors.seal(of, last) }
    },
  )

  app.get(
    '/tenants/:id',
    {
      schema: {
        operationId: 'getTenant',
        tags: ['tenants'],
        summary: 'Policy and caps of a tenant.',
        params: tenantParams,
        response: { 200: tenantSchema, ...FAILURES },
      },
    },
    async (request) => {
      requireTenant(request, request.params.id)
      return findTenant(context, request.params.id)
    },
  )

  app.get(
    '/tenants/:id/policy',
    {
      schema: {
        operationId: 'getPolicy',
        tags: ['tenants'],
        summary: 'The policy of a tenant.',
        params: tenantParams,
        response: { 200: tenantPolicySchema, ...FAILURES },
      },
    },
    async (request) => {
      requireTenant(request, request.params.id)
      return (await findTenant(context, request.params.id)).policy
    },
  )

  const change = {
    config: { admin: true },
    schema: {
      tags: ['tenants'],
      description:
        'Live at the next execution that starts. Answers 503 when it is stored but not live; repeat it.',
      params: tenantParams,
      response: { 200: tenantPolicySchema, ...FAILURES },
    },
  }

  app.patch(
    '/tenants/:id/policy',
    {
      ...change,
      schema: {
        ...change.schema,
        operationId: 'patchPolicy',
        summary: 'Change the named fields of a policy. Admin.',
        body: policyPatchSchema,
      },
    },
    async (request) => setPolicy(request.params.id, request.body, actorOf(request)),
  )

  app.put(
    '/tenants/:id/policy',
    {
      ...change,
      schema: {
        ...change.schema,
        operationId: 'putPolicy',
        summary: 'Replace a policy. Admin.',
        body: tenantPolicySchema.superRefine(({ packages }, context) => nameRuleProblems(packages, context)),
      },
    },
    async (request) => {
      const { tenant_id, ...policy } = request.body
      if (tenant_id !== request.params.id) {
        throw new CofferdamError('invalid_request', 'tenant_id of the body is not the tenant of the path.')
      }
      return setPolicy(tenant_id, policy, actorOf(request))
    },
  )

  async function setPolicy(
    tenantId: string,
    patch: z.output<typeof policyPatchSchema>,
    actor: string,
  ): Promise<TenantPolicy> {
    const { policy } = await store.tenants.setPolicy(tenantId, namedFields(patch), actor)
    if (patch.run_sessions === undefined) await forgetPolicy(context, tenantId)
    else await applyCaps(context, tenantId, undefined, 'policy')
    return policy
  }
}

/** Policy and caps of a tenant. Throws `not_found`. */
export async function findTenant(context: RouteContext, tenantId: string): Promise<Tenant> {
  const tenant = await context.store.tenants.get(tenantId)
  if (tenant === null) throw new CofferdamError('not_found', 'There is no tenant of that id.')
  return tenant
}
