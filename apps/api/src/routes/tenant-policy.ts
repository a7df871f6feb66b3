/** GET, PUT and PATCH /v1/tenants/{id}/policy, and …/templates[/{template}]. */
import {
  CofferdamError,
  nameSchema,
  templateSchema,
  tenantPolicySchema,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { Author } from '@cofferdam/store'
import { z } from 'zod'
import { actorOf } from '../authenticate.ts'
import { applyCaps, forgetPolicy } from '../make-live.ts'
import type { App, RouteContext } from '../route-context.ts'
import {
  FAILURES,
  namedFields,
  nameRuleProblems,
  policyPatchSchema,
  readablePolicySchema,
  tenantParams,
} from '../wire-schemas.ts'
import { findTenant, readablePolicy, REDACT_IS_FOR_ADMINS } from './tenants.ts'

const templateParams = tenantParams.extend({
  template: nameSchema.meta({ description: 'The template.', example: 'strict' }),
})

export function tenantPolicy(app: App, context: RouteContext): void {
  addPolicy(app, context)
  addTemplates(app, context)
}

function addPolicy(app: App, context: RouteContext): void {
  app.get(
    '/tenants/:id/policy',
    {
      schema: {
        operationId: 'getPolicy',
        tags: ['tenants'],
        summary: 'The policy of a tenant.',
        description: REDACT_IS_FOR_ADMINS,
        params: tenantParams,
        response: { 200: readablePolicySchema, ...FAILURES },
      },
    },
    async (request) => readablePolicy(request, (await findTenant(context, request.params.id)).policy),
  )

  const change = {
    config: { admin: true },
    schema: {
      tags: ['tenants'],
      description:
        'Live at the next execution that starts. Answers 503 if the change is stored but not live yet: ' +
        'then repeat the call.',
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
    actor: Author,
  ): Promise<TenantPolicy> {
    const { policy } = await context.store.tenants.setPolicy(tenantId, namedFields(patch), actor)
    if (patch.run_sessions === undefined) await forgetPolicy(context, tenantId)
    else await applyCaps(context, tenantId, undefined, 'policy')
    return policy
  }
}

function addTemplates(app: App, context: RouteContext): void {
  const { templates } = context.store

  app.get(
    '/tenants/:id/templates',
    {
      schema: {
        operationId: 'listTemplates',
        tags: ['tenants'],
        summary: 'The templates of a tenant.',
        params: tenantParams,
        response: {
          200: z.strictObject({
            templates: z.array(templateSchema).meta({ description: 'All of them.' }),
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => ({ templates: await templates.list(request.params.id) }),
  )

  app.get(
    '/tenants/:id/templates/:template',
    {
      schema: {
        operationId: 'getTemplate',
        tags: ['tenants'],
        summary: 'One template.',
        params: templateParams,
        response: { 200: templateSchema, ...FAILURES },
      },
    },
    async (request) => {
      const found = await templates.get(request.params.id, request.params.template)
      if (found === null) throw new CofferdamError('not_found', 'The tenant has no template of that id.')
      return found
    },
  )

  app.put(
    '/tenants/:id/templates/:template',
    {
      config: { admin: true },
      schema: {
        operationId: 'putTemplate',
        tags: ['tenants'],
        summary: 'Create or replace a template. If `sandbox` is null, its executions are refused. Admin.',
        params: templateParams,
        body: templateSchema.pick({ sandbox: true }),
        response: { 200: templateSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { id, template } = request.params
      const written = await templates.put(
        { tenant_id: id, template_id: template, sandbox: request.body.sandbox },
        actorOf(request),
      )
      await forgetPolicy(context, id)
      return written
    },
  )
}
