/** GET and POST /api/sandbox/config, as Polyclaw's agents and dashboard know them. Admin keys only. */
import { CofferdamError } from '@cofferdam/contract'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { isProvisioned } from './pool-work.ts'
import type { App, RouteParts } from './route-deps.ts'
import { sandboxChangeSchema, settingsAfter } from './settings-change.ts'
import type { SandboxConfig } from './settings-table.ts'
import { BLACKLIST, DEFAULT_WHITELIST, whitelistWarnings } from './whitelist.ts'

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

const eventTypeSchema = z.enum(['changed', 'making', 'made', 'removing', 'removed', 'failed'])

/** `"3"`, `W/"3"` (a proxy's form of it), or `*`. */
const ifMatchSchema = z.object({
  'if-match': z
    .string()
    .regex(/^(\*|(W\/)?"\d{1,15}")$/, 'expected the ETag of the configuration, such as "3"')
    .optional(),
})

export function addConfigRoutes(app: App, parts: RouteParts): void {
  const { configs, actorOf, cursors } = parts
  const { failures, limitQuery, cursorQuery, nextCursorSchema, changeEventSchema, defaultPage } = parts.wire

  app.get(
    '/config',
    {
      config: { admin: true },
      schema: {
        operationId: 'getSandboxConfig',
        tags: ['sandbox'],
        summary: "Polyclaw's sandbox configuration. Admin.",
        response: { 200: sandboxConfigSchema, ...failures },
      },
    },
    async (_request, reply) => await shown(parts, reply, await configs.get()),
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
          'What is on the blacklist is refused in any spelling. With If-Match, 409 when the configuration ' +
          'has changed since.',
        headers: ifMatchSchema,
        body: sandboxChangeSchema,
        response: { 200: sandboxConfigSchema, ...failures },
      },
    },
    async (request, reply) => {
      const match = /\d+/.exec(request.headers['if-match'] ?? '')
      const changed = await configs.change(
        actorOf(request),
        match === null ? null : Number(match[0]),
        (now) => settingsAfter(now, request.body),
      )
      return await shown(parts, reply, changed)
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
          200: z.strictObject({
            events: z.array(changeEventSchema(eventTypeSchema)),
            next_cursor: nextCursorSchema,
          }),
          ...failures,
        },
      },
    },
    async (request) => {
      const { limit = defaultPage, cursor } = request.query
      const of = { list: 'sandbox config events', tenantId: null }
      const before = await cursors.open(of, cursor)
      // One more than asked for shows whether there is another page.
      const found = await configs.events({
        limit: limit + 1,
        ...(before === undefined ? {} : { before: Number(before) }),
      })
      const events = found.slice(0, limit)
      const last = found.length > limit ? String(events.at(-1)?.id ?? '') : null
      return { events, next_cursor: await cursors.seal(of, last) }
    },
  )
}

/** The configuration as Polyclaw shows it, plus our own fields. */
export async function shown(
  { configs }: RouteParts,
  reply: FastifyReply,
  config: SandboxConfig,
): Promise<z.output<typeof sandboxConfigSchema>> {
  const { settings, version, work } = config
  void reply.header('etag', `"${version}"`)
  const orphans = await configs.orphans()
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

/** Throws `capability_missing` when no subscription is configured. */
export function requireProvisioner({ pools }: RouteParts) {
  if (pools !== undefined) return pools
  throw new CofferdamError(
    'capability_missing',
    'This API cannot make pools: set provisioning.azure.subscription in its configuration file.',
  )
}
