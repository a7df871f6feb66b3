/**
 * POST /mcp: the Model Context Protocol (docs/mcp.md).
 *
 *   Host, Origin ─► key or token ─► body ─► scope ─► tools (mcp/create-server.ts) ─► JSON, or an event stream
 */
import { CofferdamError } from '@cofferdam/contract'
import type { FastifyRequest } from 'fastify'
import { authenticate } from '../authenticate.ts'
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

const LOOPBACK_NAME = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/i
const LOOPBACK_ADDRESS = /^(127\.|::1$|::ffff:127\.)/

/**
 * Keeps web pages away. A page may rebind its DNS name to the address of this server and then counts as the
 * same origin. Such a page has no API key anyway. The check is a second defence that the protocol requires.
 *
 * Throws `forbidden` for an `Origin` or a `Host` that is neither a loopback name nor that of `publicUrl`, the
 * address under which clients reach the API. Without `publicUrl`, `Host` is checked only on loopback.
 */
function requireAllowedOrigin(request: FastifyRequest, publicUrl: string | undefined): void {
  const publicName = publicUrl === undefined ? null : new URL(publicUrl).hostname.toLowerCase()
  const isOurs = (name: string | null): boolean =>
    name !== null && (LOOPBACK_NAME.test(name) || name === publicName)
  const { host, origin } = request.headers
  const isLocal = LOOPBACK_ADDRESS.test(request.socket.localAddress ?? '')
  if ((isLocal || publicName !== null) && !isOurs(nameOf(`http://${host ?? ''}`)))
    throw new CofferdamError(
      'forbidden',
      'The Host header does not name this server. Operators: set COFFERDAM_PUBLIC_URL to the address that ' +
        'clients use.',
    )
  if (origin !== undefined && !isOurs(nameOf(origin)))
    throw new CofferdamError('forbidden', 'Web pages of other origins may not use this MCP server.')
}

/** The host name of a URL in lower case. Null for `null` and other text that is no URL. */
const nameOf = (url: string): string | null => URL.parse(url)?.hostname.toLowerCase() ?? null
