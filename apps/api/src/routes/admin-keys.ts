/** Admin keys (/v1/keys): they belong to the fleet. A key is shown only once. */
import { CofferdamError } from '@cofferdam/contract'
import type { ApiKey } from '@cofferdam/store'
import { z } from 'zod'
import { actorOf } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, labelSchema } from '../wire-schemas.ts'
import { keyIdSchema, keySchema, newKeySchema, revokeKey } from './tenant-credentials.ts'

const adminKeySchema = keySchema.omit({ scope: true, template_id: true })

export function adminKeys(app: App, context: RouteContext): void {
  const { keys } = context.store

  app.post(
    '/keys',
    {
      config: { admin: true },
      schema: {
        operationId: 'createAdminKey',
        tags: ['keys'],
        summary: 'Make an admin key. Admin.',
        description: 'The key may do everything in the fleet, or with read_only see everything.',
        body: z.strictObject({
          label: labelSchema.meta({ description: 'What it is for, for humans.', example: 'on-call laptop' }),
          read_only: z.boolean().default(false).meta({
            description: 'Whether the key may only read: every change answers 403. Default: false.',
          }),
        }),
        response: { 201: newKeySchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      const { label, read_only: readOnly } = request.body
      const { id, key } = await keys.create('admin', label, { readOnly, actor: actorOf(request) })
      return reply.code(201).send({ id, key })
    },
  )

  app.get(
    '/keys',
    {
      config: { admin: true },
      schema: {
        operationId: 'listAdminKeys',
        tags: ['keys'],
        summary: 'The admin keys, valid ones first, without their secret texts. Admin.',
        response: {
          200: z.strictObject({
            keys: z.array(adminKeySchema).meta({ description: 'The admin keys. At most 1,000 are listed.' }),
          }),
          ...FAILURES,
        },
      },
    },
    async () => ({ keys: (await keys.admins()).map(shown) }),
  )

  app.delete(
    '/keys/:key_id',
    {
      config: { admin: true },
      schema: {
        operationId: 'revokeAdminKey',
        tags: ['keys'],
        summary:
          'Revoke an admin key: at once in this process, within 5 s in others. May be repeated. Admin.',
        description: 'Answers 409 for the last one that may change things: make another one first.',
        params: z.strictObject({ key_id: keyIdSchema }),
        response: { 204: z.undefined().describe('It is revoked.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { key_id: id } = request.params
      const all = await keys.admins()
      if (!all.some((key) => key.id === id))
        throw new CofferdamError('not_found', 'There is no admin key of that id.')
      await revokeKey(context, request, id)
      return reply.code(204).send()
    },
  )
}

const shown = ({
  id,
  read_only,
  label,
  created_at,
  revoked_at,
  last_used_at,
}: ApiKey): z.output<typeof adminKeySchema> => ({
  id,
  read_only,
  label,
  created_at,
  revoked_at,
  last_used_at,
})
