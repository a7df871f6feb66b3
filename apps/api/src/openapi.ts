/** The OpenAPI 3.1 document at /openapi.json, from the routes' schemas, and its offline page at /docs. */
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance, FastifySchema } from 'fastify'
import { createJsonSchemaTransform, createJsonSchemaTransformObject } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { DOCS_CONTENT_SECURITY_POLICY } from './error-response.ts'
import { finishDocument, type OpenApiDocument } from './openapi-document.ts'
import { COMPONENTS } from './wire-schemas.ts'

/**
 * How long fastify waits for a plugin. Swagger UI reads its files when it is registered. On a machine without
 * free CPU that took longer than fastify's default of 10 s, and the API did not start.
 */
export const PLUGIN_TIMEOUT_MS = 60_000

/** What each tag of the routes is about, in the order of the document. */
const TAGS = {
  executions: 'Programs that run once: enqueue, wait, follow, read the result, cancel.',
  sessions: 'Sandboxes that executions share, and the files in them.',
  workspaces: 'Named files of a tenant that executions find and change.',
  routines: 'Executions on a schedule or on demand.',
  callbacks: 'The secret that results are signed with.',
  tenants: 'Policy, caps, templates and use of a tenant.',
  keys: 'API keys.',
  audit: 'One row for each attempt.',
  queue: 'What waits and runs in the fleet.',
  backends: 'Where programs can run.',
  sandbox: 'The paths of one customer’s package, Polyclaw.',
  health: 'Probes and metrics.',
} as const

/**
 * Call it before routes are added, because the document lists only routes that are added later. Returns a
 * function that makes the document. Call that one when the server is ready.
 */
export async function installOpenApi(app: FastifyInstance, version: string): Promise<() => OpenApiDocument> {
  const schemaRegistry = z.registry<{ id: string }>()
  for (const [id, schema] of COMPONENTS) schemaRegistry.add(schema, { id })
  const shared = { schemaRegistry, zodToJsonConfig: { override: describe } }
  const transform = createJsonSchemaTransform(shared)
  /** Operations whose body may be left out. fastify's document says that every body is required. */
  const bodyless = new Set<string>()

  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Cofferdam',
        version,
        description: 'Runs agent-written code in sandboxes. Every failure has the shape of `Error`.',
        contact: { name: 'The operator of this fleet' },
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/' }],
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
      components: {
        securitySchemes: {
          apiKey: { type: 'http', scheme: 'bearer', description: 'cfd_ and 40 hex digits.' },
        },
      },
      security: [{ apiKey: [] }],
    },
    transform: (input) => {
      const { route } = input
      // Routes of some plugins have no schema, although the type says that every route has one.
      const schema = (input.schema as FastifySchema | undefined) ?? { hide: true }
      const { body, operationId } = schema
      if (operationId !== undefined && body instanceof z.ZodType && body.safeParse(undefined).success)
        bodyless.add(operationId)
      const description = [schema.description ?? [], keyNeeded(schema, route.config?.admin)].flat().join(' ')
      return transform({ ...input, schema: { ...schema, description } })
    },
    transformObject: createJsonSchemaTransformObject(shared),
  })

  const documentOf = () => finishDocument(app.swagger(), bodyless)
  app.get('/openapi.json', { schema: { hide: true } }, async () => documentOf())

  await app.register(async (docs) => {
    docs.addHook('onRequest', async (_request, reply) => {
      void reply.header('content-security-policy', DOCS_CONTENT_SECURITY_POLICY)
    })
    await docs.register(swaggerUi, { routePrefix: '/docs', staticCSP: false })
  })
  return documentOf
}

/**
 * The sentence about the key that a route needs. Empty if a key is optional: then the route's description
 * says when it is needed.
 */
function keyNeeded({ security }: FastifySchema, admin = false): string | never[] {
  if (security !== undefined) return security.length === 0 ? 'Needs no key.' : []
  return admin ? 'Needs an admin key.' : 'Needs a key of the tenant, or an admin key.'
}

/**
 * Our registry contains IDs only. Descriptions and examples are in zod's global registry. For a type without
 * a JSON schema in zod, that registry has `json` or `like`. `json` is the schema, `like` the ID of a
 * component with that schema.
 */
function describe({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodType; jsonSchema: object }): void {
  const { description, example, json, like } = z.globalRegistry.get(zodSchema) ?? {}
  if (json !== undefined) {
    for (const key of Object.keys(jsonSchema)) Reflect.deleteProperty(jsonSchema, key)
    Object.assign(jsonSchema, json)
  }
  // In `allOf`, because fastify's document keeps no keyword beside a `$ref`.
  if (typeof like === 'string')
    Object.assign(jsonSchema, { allOf: [{ $ref: `#/components/schemas/${like}Input` }] })
  // The format says as much as the pattern, which takes four lines.
  if (Reflect.get(jsonSchema, 'format') === 'date-time') Reflect.deleteProperty(jsonSchema, 'pattern')
  if (description !== undefined) Object.assign(jsonSchema, { description })
  if (example !== undefined) Object.assign(jsonSchema, { examples: [example] })
}
