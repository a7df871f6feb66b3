/** The OpenAPI document of the API, made without Redis, Postgres or a listening server. */
import { createApi } from '../apps/api/src/server.ts'
import type { ApiDeps } from '../apps/api/src/route-context.ts'
import type { ApiDocument } from './client-types.ts'

/**
 * Stands for every dependency of the routes. Adding a route only reads properties of its dependencies. Only a
 * request for that route uses them, and there is none here.
 */
const unused: unknown = new Proxy(() => undefined, {
  get: (_target, key) => (key === 'then' ? undefined : unused),
  apply: () => unused,
})

export async function apiDocument(): Promise<ApiDocument> {
  const deps = { producer: unused, store: unused, admission: unused, redis: unused, metrics: unused }
  const app = await createApi(deps as ApiDeps)
  const answer = await app.inject({ url: '/openapi.json' })
  await app.close()
  return answer.json<ApiDocument>()
}
