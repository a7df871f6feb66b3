/** API keys (/v1/tenants/{id}/keys) and the callback secret (…/callback-secret). Both are shown only once. */
import { apiKeyScopeSchema, CofferdamError, nameSchema, timeSchema } from '@cofferdam/contract'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { actorOf } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, labelSchema, tenantParams } from '../wire-schemas.ts'
import { findTenant } from './tenants.ts'

export const keyIdSchema = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, 'expected a key id')
  .meta({ description: 'Identifies the key; no secret.', example: 'k_7' })

/** A key as lists show it. */
export const keySchema = z.strictObject({
  id: keyIdSchema,
  scope: apiKeyScopeSchema.meta({ description: 'What it is for: everything (admin), or one tenant.' }),
  template_id: nameSchema.nullable().meta({
    description: 'Executions that come with the key run under this template. Null: under the one they name.',
    example: 'strict',
  }),
  read_only: z.boolean().meta({ description: 'Whether it may only read.' }),
  label: z.string().meta({ description: 'What it is for, for humans.', example: 'CI of the web team' }),
  created_at: timeSchema.meta({ description: 'When it was made.' }),
  revoked_at: timeSchema.nullable().meta({ description: 'When it was revoked. Null while it is valid.' }),
  last_used_at: timeSchema
    .nullable()
    .meta({ description: 'When it was last used, to the minute. Null before the first use.' }),
})

export const newKeySchema = z.strictObject({
  id: keyIdSchema,
  key: z.string().meta({
    description: 'cfd_ and 40 hex digits. Only its hash is stored: it is never shown again.',
    example: 'cfd_0123456789abcdef0123456789abcdef01234567',
  }),
})

const newSecretSchema = z.strictObject({
  secret: z.string().meta({
    description: '`whsec_` and base64, as Standard Webhooks writes it. Never shown again.',
    example: 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=',
  }),
  rotated_at: timeSchema.meta({ description: 'When the secret was made.' }),
})

export function tenantCredentials(app: App, context: RouteContext): void {
  addKeys(app, context)
  addCallbackSecret(app, context)
}

function addKeys(app: App, context: RouteContext): void {
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
          label: labelSchema.meta({
            description: 'What it is for, for humans.',
            example: 'CI of the web team',
          }),
          template_id: nameSchema.optional().meta({
            description:
              'Binds the key: executions that come with it run under this template, and may name no other. ' +
              'Default: it is not bound.',
            example: 'strict',
          }),
          read_only: z
            .boolean()
            .default(false)
            .meta({
              description:
                'Whether the key may only read: every call that changes something, also a new execution, ' +
                'answers 403. Default: false.',
            }),
        }),
        response: { 201: newKeySchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      const { label, template_id, read_only } = request.body
      const made = await keys.create({ tenant_id: request.params.id }, label, {
        ...(template_id === undefined ? {} : { templateId: template_id }),
        readOnly: read_only,
        actor: actorOf(request),
      })
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
        summary: 'The keys of a tenant, without their secret texts. Admin.',
        params: tenantParams,
        response: {
          200: z.strictObject({ keys: z.array(keySchema).meta({ description: 'All of them.' }) }),
          ...FAILURES,
        },
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
        summary: 'Revoke a key: at once in this API process, within 5 s in others. May be repeated. Admin.',
        params: tenantParams.extend({ key_id: keyIdSchema }),
        response: { 204: z.undefined().describe('It is revoked.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { id, key_id } = request.params
      const known = (await keys.list(id)).some((key) => key.id === key_id)
      if (!known) throw new CofferdamError('not_found', 'The tenant has no key of that id.')
      await revokeKey(context, request, key_id)
      return reply.code(204).send()
    },
  )
}

function addCallbackSecret(app: App, context: RouteContext): void {
  const { callbackSecrets } = context.store

  app.post(
    '/tenants/:id/callback-secret',
    {
      schema: {
        operationId: 'rotateCallbackSecret',
        tags: ['callbacks'],
        summary:
          'Make the secret that callbacks are signed with. The previous one also signs for another 24 hours.',
        params: tenantParams,
        body: z.strictObject({}).optional(),
        response: { 201: newSecretSchema, ...FAILURES },
      },
    },
    async (request, reply) =>
      reply.code(201).send(await callbackSecrets.rotate(request.params.id, actorOf(request))),
  )

  app.get(
    '/tenants/:id/callback-secret',
    {
      schema: {
        operationId: 'getCallbackSecret',
        tags: ['callbacks'],
        summary: 'When the secret was made, but never the secret itself.',
        params: tenantParams,
        response: { 200: newSecretSchema.pick({ rotated_at: true }), ...FAILURES },
      },
    },
    async (request) => {
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
        summary: 'Delete the secret. Callbacks that are due wait up to a day for a new one. May be repeated.',
        params: tenantParams,
        response: { 204: z.undefined().describe('The tenant has no secret.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      await callbackSecrets.remove(request.params.id, actorOf(request))
      return reply.code(204).send()
    },
  )
}

/** Revokes a key, and ends the sign-ins that it began. */
export async function revokeKey(context: RouteContext, request: FastifyRequest, id: string): Promise<void> {
  await context.store.keys.revoke(id, actorOf(request))
  context.keys.forget(id)
  // If Redis does not answer, these sign-ins end at their next request, which finds no key.
  await context.signIns.forget(id).catch((error: unknown) => {
    request.log.warn({ err: error, key_id: id }, 'sign-ins of a revoked key were not removed')
  })
}

/** Throws `invalid_request` when the tenant has no secret, because nobody could verify the callbacks. */
export async function requireCallbackSecret(context: RouteContext, tenantId: string): Promise<void> {
  if ((await context.store.callbackSecrets.info(tenantId)) !== null) return
  throw new CofferdamError(
    'invalid_request',
    `callback_url: the tenant ${tenantId} has no secret to sign callbacks with. ` +
      `Create one with POST /v1/tenants/${tenantId}/callback-secret.`,
  )
}
