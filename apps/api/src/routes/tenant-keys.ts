/** POST, GET and DELETE /v1/tenants/{id}/keys: a key is shown once, when it is made. */
import { CofferdamError, apiKeyScopeSchema, nameSchema } from '@cofferdam/contract'
import { z } from 'zod'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, keyIdSchema, labelSchema, tenantParams } from '../wire-schemas.ts'
import { findTenant } from './tenants.ts'

const keySchema = z.strictObject({
  id: keyIdSchema,
  scope: apiKeyScopeSchema,
  template_id: nameSchema
    .nullable()
    .meta({ description: 'What comes with the key runs under this template; null: under the one named.' }),
  label: z.string(),
  created_at: z.iso.datetime(),
  revoked_at: z.iso.datetime().nullable(),
  last_used_at: z.iso.datetime().nullable().meta({ description: 'To the minute.' }),
})

const madeSchema = z.strictObject({
  id: keyIdSchema,
  key: z
    .string()
    .meta({ description: 'cfd_ and 40 hex digits. Only its hash is kept: it is never shown again.' }),
})

/** Adds the routes. */
export function tenantKeys(app: App, context: RouteContext): void {
  const { keys } = context.store

  app.post(
    '/tenants/:id/keys',
    {
      config: { admin: true },
      schema: {
        operationId: 'createKey',
        tags: ['keys'],
        summary: 'Make an API key of a tenant. Admin.',
        params: tenantParams,
        body: z.strictObject({
          label: labelSchema,
          template_id: nameSchema.optional().meta({
            description: 'Binds the key: what comes with it runs under this template, and may name no other.',
          }),
        }),
        response: { 201: madeSchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      const { label, template_id } = request.body
      const made = await keys.create({ tenant_id: request.params.id }, label, template_id)
      return reply.code(201).send({ id: made.id, key: made.key })
    },
  )

  app.get(
    '/tenants/:id/keys',
    {
      config: { admin: true },
      schema: {
        operationId: 'listKeys',
        tags: ['keys'],
        summary: 'The keys of a tenant, without the keys themselves. Admin.',
        params: tenantParams,
        response: { 200: z.strictObject({ keys: z.array(keySchema) }), ...FAILURES },
      },
    },
    async (request) => {
      await findTenant(context, request.params.id)
      return { keys: await keys.list(request.params.id) }
    },
  )

  app.delete(
    '/tenants/:id/keys/:key_id',
    {
      config: { admin: true },
      schema: {
        operationId: 'revokeKey',
        tags: ['keys'],
        summary: 'Revoke a key: at once here, within 5 s in other processes. May be repeated. Admin.',
        params: tenantParams.extend({ key_id: keyIdSchema }),
        response: { 204: z.undefined().describe('It is revoked.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { id, key_id } = request.params
      const known = (await keys.list(id)).some((key) => key.id === key_id)
      if (!known) throw new CofferdamError('not_found', 'The tenant has no key of that id.')
      await keys.revoke(key_id)
      context.keys.forget(key_id)
      return reply.code(204).send()
    },
  )
}
