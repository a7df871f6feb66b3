/** POST, GET and DELETE /v1/tenants/{id}/callback-secret: shown once, when it is made. */
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { requireTenant } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, tenantParams } from '../wire-schemas.ts'

const madeSchema = z.strictObject({
  secret: z
    .string()
    .meta({ description: '`whsec_` and base64, as Standard Webhooks writes it. Never shown again.' }),
  rotated_at: z.iso.datetime(),
})

/** Adds the routes. */
export function tenantCallbackSecret(app: App, context: RouteContext): void {
  const { callbackSecrets } = context.store

  app.post(
    '/tenants/:id/callback-secret',
    {
      schema: {
        operationId: 'rotateCallbackSecret',
        tags: ['callbacks'],
        summary:
          'Make the secret that callbacks are signed with. The one before it signs along for 24 hours.',
        params: tenantParams,
        body: z.strictObject({}).optional(),
        response: { 201: madeSchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      requireTenant(request, request.params.id)
      return reply.code(201).send(await callbackSecrets.rotate(request.params.id))
    },
  )

  app.get(
    '/tenants/:id/callback-secret',
    {
      schema: {
        operationId: 'getCallbackSecret',
        tags: ['callbacks'],
        summary: 'When the secret was made; never the secret.',
        params: tenantParams,
        response: { 200: madeSchema.pick({ rotated_at: true }), ...FAILURES },
      },
    },
    async (request) => {
      requireTenant(request, request.params.id)
      const found = await callbackSecrets.info(request.params.id)
      if (found === null) throw new CofferdamError('not_found', 'The tenant has no callback secret.')
      return found
    },
  )

  app.delete(
    '/tenants/:id/callback-secret',
    {
      schema: {
        operationId: 'deleteCallbackSecret',
        tags: ['callbacks'],
        summary:
          'Forget the secret: callbacks that are due wait for another one, for a day. May be repeated.',
        params: tenantParams,
        response: { 204: z.undefined().describe('There is none.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      requireTenant(request, request.params.id)
      await callbackSecrets.remove(request.params.id)
      return reply.code(204).send()
    },
  )
}
