/**
 * POST /mcp: the Model Context Protocol (docs/mcp.md).
 *
 *   Host, Origin ─► key or token ─► body ─► scope ─► tools (mcp/create-server.ts) ─► JSON, or an event stream
 */
import { authenticate } from '../authenticate.ts'
import { requireAllowedOrigin } from '../mcp/allowed-origin.ts'
import type { BuildServer, Endpoint } from '../mcp/endpoint.ts'
import { mcpQuery } from '../mcp/exchange.ts'
import { createResourceServer, type ResourceServer } from '../oauth/resource-server.ts'
import type { App, RouteContext } from '../route-context.ts'

export function mcp(app: App, context: RouteContext, build?: BuildServer): void {
  const oauth = context.oauth === undefined ? undefined : createResourceServer(context.oauth, context)
  app.addHook('onRequest', async (request) => requireAllowedOrigin(request, context.publicUrl))
  if (oauth !== undefined) describeResource(app, oauth)
  void app.register(async (inside) => endpointOf(inside as App, context, oauth, build))
}

function endpointOf(
  app: App,
  context: RouteContext,
  oauth: ResourceServer | undefined,
  build: BuildServer | undefined,
): void {
  let endpoint: Promise<Endpoint> | undefined
  authenticate(app, { keys: context.keys, oauth, readOnlyByScope: true })
  app.post('/mcp', { schema: { hide: true, querystring: mcpQuery } }, async (request, reply) => {
    // Loaded with the first call: an API without MCP clients need not have the SDK in memory.
    endpoint ??= import('../mcp/endpoint.ts').then(({ createEndpoint }) =>
      createEndpoint(context, { build, oauth }),
    )
    await (await endpoint).serve(request, reply)
    return reply
  })
}

/** Serves the metadata of RFC 9728 to everybody: a client reads it before it has a token. */
function describeResource(app: App, { metadata, metadataPaths }: ResourceServer): void {
  for (const path of metadataPaths) app.get(path, { schema: { hide: true } }, async () => metadata)
}
