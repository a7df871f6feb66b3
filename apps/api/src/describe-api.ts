/** The OpenAPI document without a running fleet, for the reference page and for tests. */
import { fastify } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { OpenApiDocument } from './openapi-document.ts'
import { installOpenApi, PLUGIN_TIMEOUT_MS } from './openapi.ts'
import type { App, RouteContext } from './route-context.ts'
import { addRoutes } from './routes/index.ts'
import { API_VERSION } from './server.ts'

/**
 * Properties that `unconnected` does not have. If it had `then`, an `await` of it would never end. Without
 * `oauth`, the document describes an API without an issuer.
 */
const ABSENT: ReadonlySet<string | symbol> = new Set(['then', 'oauth'])

/**
 * A stand-in for the route context: each of its properties and each call of it returns itself. Routes can be
 * registered with it, but they must not be called.
 */
const unconnected: unknown = new Proxy(() => unconnected, {
  get: (_, name) => (ABSENT.has(name) ? undefined : unconnected),
  apply: () => unconnected,
})

/** The document that `GET /openapi.json` sends. */
export async function describeApi(): Promise<OpenApiDocument> {
  const app = fastify({ pluginTimeout: PLUGIN_TIMEOUT_MS })
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => () => '')
  const documentOf = await installOpenApi(app, API_VERSION)
  addRoutes(app.withTypeProvider<ZodTypeProvider>() as App, unconnected as RouteContext)
  await app.ready()
  const document = documentOf()
  await app.close()
  return document
}
