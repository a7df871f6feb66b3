/** GET and POST /api/sandbox/config, as Polyclaw's agents and dashboard know them (seed 004). Admin. */
import { CofferdamError } from '@cofferdam/contract'
import type { SandboxConfig } from '@cofferdam/store'
import { BLACKLIST, DEFAULT_WHITELIST, whitelistWarnings } from '@cofferdam/workspace-sync'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { actorOf } from '../authenticate.ts'
import { isProvisioned } from '../pool-work.ts'
import type { App, RouteContext } from '../route-context.ts'
import { sandboxChangeSchema, settingsAfter } from '../sandbox-settings.ts'
import {
  changeEventSchema,
  cursorQuery,
  DEFAULT_PAGE,
  FAILURES,
  limitQuery,
  nextCursorSchema,
} from '../wire-schemas.ts'

export const sandboxConfigSchema = z.strictObject({
  enabled: z.boolean(),
  session_pool_endpoint: z.string(),
  sync_data: z.boolean(),
  whitelist: z.array(z.string()),
  resource_group: z.string(),
  location: z.string(),
  pool_name: z.string(),
  pool_id: z.string(),
  is_provisioned: z.boolean(),
  blacklist: z.array(z.string()),
  default_whitelist: z.array(z.string()),
  experimental: z.literal(true),
  warnings: z.array(z.string()),
  version: z.int().meta({ description: 'Also the ETag; send it as If-Match to change what you read.' }),
  provisioning: z
    .strictObject({
      kind: z.enum(['making', 'removing']),
      step: z.string().nullable(),
      held: z.boolean().meta({ description: 'False: it was left undone; send the same request again.' }),
    })
    .nullable(),
  orphans: z
    .array(z.strictObject({ resource_id: z.string(), reason: z.string(), created_at: z.iso.datetime() }))
    .meta({ description: 'Resources of ours at Azure that may still be there, and cost money.' }),
})

const eventSchema = changeEventSchema(z.enum(['changed', 'making', 'made', 'removing', 'removed', 'failed']))

/** `"3"`, `W/"3"` as proxies make of it, or `*`. */
const ifMatchSchema = z.object({
  'if-match': z
    .string()
    .regex(/^(\*|(W\/)?"\d{1,15}")$/, 'expected the ETag of the configuration, such as "3"')
    .optional(),
})

/** Adds the routes. */
export function sandboxConfig(app: App, context: RouteContext): void {
  const { sandboxConfig: configs } = context.store

  app.get(
    '/config',
    {
      config: { admin: true },
      schema: {
        operationId: 'getSandboxConfig',
        tags: ['sandbox'],
        summary: "Polyclaw's sandbox configuration. Admin.",
        response: { 200: sandboxConfigSchema, ...FAILURES },
      },
    },
    async (_request, reply) => await shown(context, reply, await configs.get()),
  )

  app.post(
    '/config',
    {
      config: { admin: true },
      schema: {
        operationId: 'setSandboxConfig',
        tags: ['sandbox'],
        summary: "Change Polyclaw's sandbox configuration, all of the body or nothing. Admin.",
        description:
          'What is on the blacklist is refused in any spelling. With If-Match, 409 when the configuration has changed since.',
        headers: ifMatchSchema,
        body: sandboxChangeSchema,
        response: { 200: sandboxConfigSchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      const match = /\d+/.exec(request.headers['if-match'] ?? '')
      const changed = await configs.change(
        actorOf(request),
        match === null ? null : Number(match[0]),
        (now) => settingsAfter(now, request.body),
      )
      return await shown(context, reply, changed)
    },
  )

  app.get(
    '/config/events',
    {
      config: { admin: true },
      schema: {
        operationId: 'listSandboxConfigEvents',
        tags: ['sandbox'],
        summary: 'Who changed what of the sandbox configuration and its pool, newest first. Admin.',
        querystring: z.strictObject({
          limit: limitQuery.optional(),
          cursor: cursorQuery.optional(),
        }),
        response: {
          200: z.strictObject({ events: z.array(eventSchema), next_cursor: nextCursorSchema }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const { limit = DEFAULT_PAGE, cursor } = request.query
      const of = { list: 'sandbox config events', tenantId: null }
      const before = await context.cursors.open(of, cursor)
      // One more than asked for tells whether there is another page.
      const found = await configs.events({
        limit: limit + 1,
        ...(before === undefined ? {} : { before: Number(before) }),
      })
      const events = found.slice(0, limit)
      const last = found.length > limit ? String(events.at(-1)?.id ?? '') : null
      return { events, next_cursor: await context.cursors.seal(of, last) }
    },
  )
}

/** The configuration as the seed shows it, and more. */
export async function shown(
  context: RouteContext,
  reply: FastifyReply,
  config: SandboxConfig,
): Promise<z.output<typeof sandboxConfigSchema>> {
  const { settings, version, work } = config
  void reply.header('etag', `"${version}"`)
  const orphans = await context.store.sandboxConfig.orphans()
  return {
    ...settings,
    is_provisioned: isProvisioned(settings),
    blacklist: [...BLACKLIST],
    default_whitelist: [...DEFAULT_WHITELIST],
    experimental: true,
    warnings: whitelistWarnings(settings.whitelist),
    version,
    provisioning: work === null ? null : { kind: work.kind, step: work.step, held: work.held },
    orphans,
  }
}

/** Throws `capability_missing` where nothing says in whose subscription. */
export function requireProvisioner(context: RouteContext) {
  if (context.pools !== undefined) return context.pools
  throw new CofferdamError(
    'capability_missing',
    'This API cannot make pools: set provisioning.azure.subscription in its configuration file.',
  )
}
