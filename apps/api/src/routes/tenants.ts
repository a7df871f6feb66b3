/** POST and GET /v1/tenants, GET /v1/tenants/{id}, and GET, PUT, PATCH of its policy. */
import {
  CofferdamError,
  DEFAULT_TENANT_CAPS,
  tenantCapsSchema,
  tenantPolicySchema,
} from '@cofferdam/contract'
import { z } from 'zod'
import { actorOf, requireTenant } from '../authenticate.ts'
import { applyCaps, forgetPolicy } from '../make-live.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, policyPatchSchema, tenantParams, tenantSchema } from '../wire-schemas.ts'

/** Fields left out take the safe side: sandboxing is on for standard tenants only, isolation at least a container. */
const newTenantSchema = tenantPolicySchema
  .partial()
  .required({ tenant_id: true })
  .extend({ caps: tenantCapsSchema.partial().optional() })

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
      const { caps, ...policy } = request.body
      const tenant = await store.tenants.create(
        { policy, caps: { ...DEFAULT_TENANT_CAPS, ...caps } },
        actorOf(request),
      )
      await applyCaps(context, tenant.policy.tenant_id, tenant.caps)
      return reply.code(201).header('location', `/v1/tenants/${tenant.policy.tenant_id}`).send(tenant)
    },
  )

  app.get(
    '/tenants',
    {
      config: { admin: true },
      schema: {
        operationId: 'listTenants',
        tags: ['tenants'],
        summary: 'All tenants. Admin.',
        response: { 200: z.strictObject({ tenants: z.array(tenantSchema) }), ...FAILURES },
      },
    },
    async () => ({ tenants: await store.tenants.list() }),
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
        body: tenantPolicySchema,
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
  ): Promise<z.output<typeof tenantPolicySchema>> {
    await findTenant(context, tenantId)
    const policy = await store.tenants.setPolicy(tenantId, patch, actor)
    await forgetPolicy(context, tenantId)
    return policy
  }
}

/** Policy and caps of a tenant. Throws `not_found`. */
export async function findTenant(
  context: RouteContext,
  tenantId: string,
): Promise<z.output<typeof tenantSchema>> {
  const tenant = await context.store.tenants.get(tenantId)
  if (tenant === null) throw new CofferdamError('not_found', 'There is no tenant of that id.')
  return tenant
}
