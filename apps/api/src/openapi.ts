/** The OpenAPI 3.1 document at /openapi.json, from the routes' schemas, and its offline page at /docs. */
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { createJsonSchemaTransform, createJsonSchemaTransformObject } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { DOCS_CONTENT_SECURITY_POLICY } from './error-response.ts'
import { COMPONENTS } from './wire-schemas.ts'

/** Call it before routes are added: the document lists the routes that are added later. */
export async function installOpenApi(app: FastifyInstance, version: string): Promise<void> {
  const schemaRegistry = z.registry<{ id: string }>()
  for (const [id, schema] of COMPONENTS) schemaRegistry.add(schema, { id })
  const shared = { schemaRegistry, zodToJsonConfig: { override: describe } }

  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Cofferdam',
        version,
        description: 'Runs agent-written code in sandboxes. Every failure has the shape of `Error`.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/' }],
      components: {
        securitySchemes: {
          apiKey: { type: 'http', scheme: 'bearer', description: 'cfd_ and 40 hex digits.' },
        },
      },
      security: [{ apiKey: [] }],
    },
    transform: createJsonSchemaTransform(shared),
    transformObject: (input) => {
      const document = createJsonSchemaTransformObject(shared)(input)
      return withoutUnused(document as Record<string, unknown>) as typeof document
    },
  })

  app.get('/openapi.json', { schema: { hide: true } }, async () => nameWildcards(app.swagger()))

  await app.register(async (docs) => {
    docs.addHook('onRequest', async (_request, reply) => {
      void reply.header('content-security-policy', DOCS_CONTENT_SECURITY_POLICY)
    })
    await docs.register(swaggerUi, { routePrefix: '/docs', staticCSP: false })
  })
}

/** Our registry contains IDs only. Descriptions and examples are in zod's global registry. */
function describe({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodType; jsonSchema: object }): void {
  const meta = z.globalRegistry.get(zodSchema)
  if (meta?.description !== undefined) Object.assign(jsonSchema, { description: meta.description })
  if (meta?.['example'] !== undefined) Object.assign(jsonSchema, { examples: [meta['example']] })
}

/** Removes unreferenced schemas. Each named schema exists once as input and once as output. */
function withoutUnused(document: Record<string, unknown>): Record<string, unknown> {
  const components = document['components'] as { schemas?: Record<string, unknown> } | undefined
  const schemas = components?.schemas ?? {}
  const used = new Set<string>()
  const visit = (value: unknown): void => {
    for (const [, name] of JSON.stringify(value).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      if (name === undefined || used.has(name)) continue
      used.add(name)
      visit(schemas[name] ?? null)
    }
  }
  visit(document['paths'] ?? null)
  const kept = Object.fromEntries(Object.entries(schemas).filter(([name]) => used.has(name)))
  return { ...document, components: { ...components, schemas: kept } }
}

/** Renames `{*}`, fastify's word for the rest of a path, to `{path}`. */
function nameWildcards<T>(document: T): T {
  const text = JSON.stringify(document)
    .replaceAll('/{*}"', '/{path}"')
    .replaceAll('"name":"*"', '"name":"path"')
  return JSON.parse(text) as T
}
