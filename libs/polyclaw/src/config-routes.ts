/** GET and POST /api/sandbox/config, as Polyclaw's agents and dashboard know them. Admin keys only. */
import { CofferdamError, timeSchema } from '@cofferdam/contract'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { isProvisioned } from './pool-work.ts'
import type { App, RouteParts } from './route-deps.ts'
import { ENDPOINT_EXAMPLE, sandboxChangeSchema, settingsAfter } from './settings-change.ts'
import type { SandboxConfig } from './settings-table.ts'
import { BLACKLIST, DEFAULT_WHITELIST, whitelistWarnings } from './whitelist.ts'

export const sandboxConfigSchema = z.strictObject({
  enabled: z.boolean().meta({ description: 'Whether agents may use the sandbox.' }),
  session_pool_endpoint: z.string().meta({
    description: 'The pool’s endpoint. Empty without a pool.',
    example: ENDPOINT_EXAMPLE,
  }),
  sync_data: z.boolean().meta({
    description: 'Whether files of the data directory are copied into sandboxes and merged back.',
  }),
  whitelist: z.array(z.string()).meta({
    description: 'Paths of the data directory that are synced.',
    example: ['memory'],
  }),
  resource_group: z.string().meta({
    description: 'The pool’s resource group. Empty without a pool.',
    example: 'polyclaw-sandbox-rg',
  }),
  location: z.string().meta({ description: 'The pool’s region. Empty without a pool.', example: 'eastus' }),
  pool_name: z.string().meta({
    description: 'The pool’s name. Empty without a pool.',
    example: 'polyclaw-sandbox-1a2b',
  }),
  pool_id: z.string().meta({
    description: 'The pool’s resource ID at Azure. Empty without a pool.',
    example: '/subscriptions/0000/resourceGroups/rg/providers/Microsoft.App/sessionPools/pool',
  }),
  is_provisioned: z.boolean().meta({ description: 'Whether there is a pool.' }),
  blacklist: z.array(z.string()).meta({
    description: 'Paths that are never synced.',
    example: ['.azure'],
  }),
  default_whitelist: z.array(z.string()).meta({
    description: 'What reset_whitelist sets.',
    example: ['memory'],
  }),
  experimental: z.literal(true).meta({ description: 'Always true. Polyclaw shows it.' }),
  warnings: z.array(z.string()).meta({
    description: 'What the operator should know about the whitelist.',
    example: ['.env holds secrets: it is never carried, whatever the whitelist says.'],
  }),
  version: z.int().meta({
    description: 'Also the ETag. A change with it as If-Match fails if somebody else changed it first.',
    example: 3,
  }),
  provisioning: z
    .strictObject({
      kind: z.enum(['making', 'removing']).meta({ description: 'What is done to the pool.' }),
      step: z.string().nullable().meta({
        description: 'The step that is done now. Null before the first.',
        example: 'pool',
      }),
      held: z.boolean().meta({
        description:
          'True while a request works on the pool. False: the work broke off. Send the same request again.',
      }),
    })
    .nullable()
    .meta({ description: 'Work on the pool. Null when there is none.' }),
  orphans: z
    .array(
      z.strictObject({
        resource_id: z.string().meta({
          description: 'The resource at Azure.',
          example: '/subscriptions/0000/resourceGroups/rg',
        }),
        reason: z.string().meta({ description: 'Why it is left.', example: 'delete failed' }),
        created_at: timeSchema.meta({ description: 'When Cofferdam put it on this list.' }),
      }),
    )
    .meta({ description: 'Resources of ours at Azure that may still be there, and cost money.' }),
})

const eventTypeSchema = z
  .enum(['changed', 'making', 'made', 'removing', 'removed', 'failed'])
  .meta({ description: 'What was done.' })

/** `"3"`, `W/"3"` (a proxy's form of it), or `*`. */
const ifMatchSchema = z.object({
  'if-match': z
    .string()
    .regex(/^(\*|(W\/)?"\d{1,15}")$/, 'expected the ETag of the configuration, such as "3"')
    .optional()
    .meta({
      description: 'Change it only if it still has this version. Default: in any case.',
      example: '"3"',
    }),
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
          'Whitelist entries that name a blacklisted path are refused, however they are spelled. With ' +
          'If-Match, 409 if the configuration has changed since.',
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
            events: z.array(changeEventSchema(eventTypeSchema)).meta({ description: 'One page of changes.' }),
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
      // Read one more event than was asked for, to see whether there is another page.
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
