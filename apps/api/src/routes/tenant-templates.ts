/** GET and PUT /v1/tenants/{id}/templates/{template}. */
import { CofferdamError, nameSchema, templateSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { actorOf, requireTenant } from '../authenticate.ts'
import { forgetPolicy } from '../make-live.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, tenantParams } from '../wire-schemas.ts'

const params = tenantParams.extend({ template: nameSchema })

/** Adds the routes. */
export function tenantTemplates(app: App, context: RouteContext): void {
  app.get(
    '/tenants/:id/templates',
    {
      schema: {
        operationId: 'listTemplates',
        tags: ['tenants'],
        summary: 'The templates of a tenant.',
        params: tenantParams,
        response: { 200: z.strictObject({ templates: z.array(templateSchema) }), ...FAILURES },
      },
    },
    async (request) => {
      requireTenant(request, request.params.id)
      return { templates: await context.store.templates.list(request.params.id) }
    },
  )

  app.get(
    '/tenants/:id/templates/:template',
    {
      schema: {
        operationId: 'getTemplate',
        tags: ['tenants'],
        summary: 'One template.',
        params,
        response: { 200: templateSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { id, template } = request.params
      requireTenant(request, id)
      const found = await context.store.templates.get(id, template)
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
        summary: 'Create or replace a template: `sandbox` opts its agents in. Admin.',
        params,
        body: templateSchema.pick({ sandbox: true }),
        response: { 200: templateSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { id, template } = request.params
      const written = await context.store.templates.put(
        { tenant_id: id, template_id: template, sandbox: request.body.sandbox },
        actorOf(request),
      )
      await forgetPolicy(context, id)
      return written
    },
  )
}
