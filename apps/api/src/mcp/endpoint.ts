/**
 * The Model Context Protocol over Streamable HTTP, for clients of revision 2026-07-28 and, without sessions,
 * of the 2025 revisions. One request is one exchange, so any replica serves any request.
 */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createMcpHandler, type McpRequestContext, type Server } from '@modelcontextprotocol/server'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { holderOf } from '../authenticate.ts'
import { requireScopes, type ResourceServer } from '../oauth/resource-server.ts'
import type { Scope } from '../oauth/scopes.ts'
import type { RouteContext } from '../route-context.ts'
import { createServer, scopeOfTool } from './create-server.ts'
import type { Exchange } from './exchange.ts'
import { cancelNamedCall, SESSION_HEADER } from './legacy-cancel.ts'
import { answerListener } from './task-notifications.ts'
import { takeOver } from '../streams.ts'

export interface Endpoint {
  /** Answers one request of a known caller. Throws `forbidden` when its token lacks a scope. */
  serve(request: Exchange['request'], reply: FastifyReply): Promise<void>
}

/** Makes the server of one request. */
export type BuildServer = (exchange: Exchange, asked: McpRequestContext) => Server

export interface EndpointOptions {
  /** Tests of the transport pass their own. Default: the server with our tools. */
  build?: BuildServer | undefined
  /** Absent: no caller has an access token. */
  oauth?: ResourceServer | undefined
}

/** Creates the endpoint. */
export function createEndpoint(
  context: RouteContext,
  { build = createServer, oauth }: EndpointOptions,
): Endpoint {
  const exchanges = new WeakMap<Request, Exchange>()
  const handler = createMcpHandler(
    (asked) => {
      const exchange = asked.requestInfo === undefined ? undefined : exchanges.get(asked.requestInfo)
      if (exchange === undefined) throw new Error('the MCP handler lost its request')
      return build(exchange, asked)
    },
    { onerror: (error) => context.logger?.debug({ err: error }, 'the MCP handler refused a request') },
  )
  return {
    async serve(request, reply) {
      requireScopes(request, reply, oauth, requiredScopes(request.body))
      const method = messageSchema.safeParse(request.body).data?.method
      const listens = method === 'subscriptions/listen'
      // A subscription stays open for long, so it takes one of the caller's stream slots.
      using _slot = listens ? context.streams.require(holderOf(request)) : null
      const gone = goneBeforeAnswer(reply)
      const signal = listens ? AbortSignal.any([gone, context.draining, ...expiryOf(request)]) : gone
      const web = webRequestOf(request, signal)
      const exchange = { context, request, reply, gone }
      exchanges.set(web, exchange)
      await cancelNamedCall(context, request, request.body)
      const answer = await handler.fetch(web, { parsedBody: request.body })
      const response = listens ? await answerListener(exchange, request.body, answer, signal) : answer
      // Tells the clients of one key apart (legacy-cancel.ts).
      if (method === 'initialize' && response.ok) response.headers.set(SESSION_HEADER, randomUUID())
      await sendWebResponse(reply, response, gone)
    },
  }
}

/** Aborts when the caller's token expires. Nothing for a caller with a key. */
function expiryOf({ caller }: FastifyRequest): AbortSignal[] {
  if (caller?.grant === undefined) return []
  // A timer above 2^31 - 1 ms would fire at once.
  const leftMs = Math.min(Math.max(0, caller.grant.expiresAtMs - Date.now()), 2 ** 31 - 1)
  return [AbortSignal.timeout(leftMs)]
}

/** Aborts when the connection closes before the whole answer was written to it. */
function goneBeforeAnswer({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  raw.once('close', () => {
    if (!raw.writableFinished) gone.abort()
  })
  if (raw.destroyed) gone.abort()
  return gone.signal
}

/** Methods that need no scope: any caller may open a connection and list what there is. */
const FREE: ReadonlySet<string> = new Set([
  'initialize',
  'ping',
  'server/discover',
  'tools/list',
  'resources/list',
  'resources/templates/list',
])

const messageSchema = z.looseObject({
  method: z.string(),
  params: z.looseObject({ name: z.string().optional() }).optional().catch(undefined),
})

/** The scopes that `body` needs. It has one message or several. */
function requiredScopes(body: unknown): ReadonlySet<Scope> {
  const messages = Array.isArray(body) ? body : [body]
  const scopes = messages.flatMap((message): Scope[] => {
    const parsed = messageSchema.safeParse(message).data
    // The message is a response or not JSON-RPC. The handler deals with it, and no scope is needed.
    if (parsed === undefined) return []
    const { method, params } = parsed
    // Notifications need no scope: `notifications/cancelled` can only cancel calls of the same caller.
    if (FREE.has(method) || method.startsWith('notifications/')) return []
    if (method === 'tasks/cancel') return ['cofferdam:cancel']
    if (method !== 'tools/call') return ['cofferdam:read']
    const scope = scopeOfTool(params?.name ?? '')
    return scope === undefined ? [] : [scope]
  })
  return new Set(scopes)
}

/** The headers that the SDK's handler reads. It never sees the key. */
const READ = /^(accept|content-type|mcp-.*)$/

/** `request` in the form that the SDK's handler expects. The body is passed separately, already parsed. */
function webRequestOf(request: FastifyRequest, signal: AbortSignal): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers))
    if (READ.test(name) && typeof value === 'string') headers.set(name, value)
  return new Request(new URL('/mcp', 'http://localhost'), { method: request.method, headers, signal })
}

/** Sends `response` with the headers that our hooks have set. Ends when the client is gone. */
async function sendWebResponse(reply: FastifyReply, response: Response, gone: AbortSignal): Promise<void> {
  const { connection: _, ...headers } = Object.fromEntries(response.headers)
  const { raw } = reply
  raw.on('error', () => raw.destroy())
  raw.writeHead(response.status, { ...takeOver(reply), ...headers })
  // Otherwise a client that waits for the first message does not know that its request arrived.
  raw.flushHeaders()
  try {
    for await (const chunk of response.body ?? []) {
      if (gone.aborted) return
      if (!raw.write(chunk)) await once(raw, 'drain', { signal: gone })
    }
  } catch (error) {
    if (!gone.aborted) throw error
  } finally {
    raw.end()
  }
}
