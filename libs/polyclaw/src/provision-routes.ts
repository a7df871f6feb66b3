/** POST and DELETE /api/sandbox/provision: makes and removes the session pool at Azure. Admin keys only. */
import { z } from 'zod'
import { requireProvisioner, sandboxConfigSchema, shown } from './config-routes.ts'
import { poolWishSchema } from './pool-wish.ts'
import { makeSandboxPool, removeSandboxPool } from './pool-work.ts'
import type { App, RouteParts } from './route-deps.ts'

export function addProvisionRoutes(app: App, parts: RouteParts): void {
  const { configs, actorOf, draining: signal } = parts
  const { failures } = parts.wire

  app.post(
    '/provision',
    {
      config: { admin: true },
      schema: {
        operationId: 'provisionSandbox',
        tags: ['sandbox'],
        summary: 'Create a session pool at Azure and store its endpoint, unless there is one. Admin.',
        description:
          'Takes minutes. The pool runs PythonLTS, without network, with a cooldown of 300 s. The pool, ' +
          'and the group if it is created, get the tag fleet-owner. If a step fails, what was created is ' +
          'removed again. What cannot be removed is listed as an orphan. If the API process dies, send the ' +
          'same request again: it continues where the first one stopped.',
        body: poolWishSchema.optional(),
        response: {
          200: z.strictObject({
            status: z.enum(['made', 'already_provisioned']).meta({ description: 'What was done.' }),
            config: sandboxConfigSchema.meta({ description: 'The configuration now.' }),
          }),
          ...failures,
        },
      },
    },
    async (request, reply) => {
      const deps = { configs, provisioner: requireProvisioner(parts), signal }
      const status = await makeSandboxPool({ ...deps, actor: actorOf(request) }, request.body ?? {})
      return { status, config: await shown(parts, reply, await configs.get()) }
    },
  )

  app.delete(
    '/provision',
    {
      config: { admin: true },
      schema: {
        operationId: 'deprovisionSandbox',
        tags: ['sandbox'],
        summary: 'Remove the session pool, and its group when it is ours and empty. Admin.',
        description:
          'The configuration is cleared, and the sandbox disabled, only when Azure says that the pool is ' +
          'gone. Until then it stays as it is, and the pool is listed as an orphan.',
        response: {
          200: z.strictObject({
            status: z.enum(['removed', 'not_provisioned']).meta({ description: 'What was done.' }),
            resource_group: z
              .enum(['gone', 'kept', 'orphaned'])
              .nullable()
              .meta({
                description:
                  'What became of the resource group. kept: not ours, or it holds something else. Null ' +
                  'without a pool.',
              }),
            config: sandboxConfigSchema.meta({ description: 'The configuration now.' }),
          }),
          ...failures,
        },
      },
    },
    async (request, reply) => {
      const deps = { configs, provisioner: requireProvisioner(parts), signal }
      const { status, resource_group } = await removeSandboxPool({ ...deps, actor: actorOf(request) })
      return { status, resource_group, config: await shown(parts, reply, await configs.get()) }
    },
  )
}
