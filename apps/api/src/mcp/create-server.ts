/** The MCP server of one request: tools, resources and tasks for whoever sent it. */
import { parse } from '@cofferdam/contract'
import {
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type McpRequestContext,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { permits, type Scope } from '../oauth/scopes.ts'
import type { Exchange } from './exchange.ts'
import { executeCode } from './execute-code.ts'
import { EXECUTION_TOOLS } from './execution-tools.ts'
import { PROGRAM_TOOLS } from './program-tools.ts'
import { readResource, RESOURCE_TEMPLATES } from './resources.ts'
import { SERVER_INFO } from './server-info.ts'
import { sessionFiles } from './session-tool.ts'
import { declaresTasks, installTasks, TASKS } from './tasks.ts'
import { listedTool, type Tool, type ToolCall } from './tool.ts'
import { errorResult } from './tool-result.ts'

/** The order is fixed, so that models can cache the list, which is part of their prompt. */
const TOOLS: readonly Tool[] = [...PROGRAM_TOOLS, ...EXECUTION_TOOLS, sessionFiles, executeCode]

/** What `tools/list` answers to a key. It only changes with a release. */
export const LISTED_TOOLS = TOOLS.map(listedTool)

const BY_NAME = new Map(TOOLS.map((tool) => [tool.name, tool]))

/** What a token needs to call the tool `name`. Undefined if there is no such tool. */
export const scopeOfTool = (name: string): Scope | undefined => BY_NAME.get(name)?.scope

/** The tools that the caller's key or token may use. */
function toolsFor({ request: { caller } }: Exchange): typeof LISTED_TOOLS {
  return LISTED_TOOLS.filter(({ name }) => {
    const scope = scopeOfTool(name)
    return caller !== null && scope !== undefined && permits(caller, scope)
  })
}

const INSTRUCTIONS =
  'Cofferdam runs programs in sandboxes. Each execution is queued fairly, limited by caps and audited. It ' +
  'survives a lost connection if you said detach: get_execution finds its result. To keep variables and ' +
  'files between calls, choose a session name and send it with each call. An answer with isError says ' +
  'what to do differently or when to try again.'

/** Clients may cache lists for this long. The cache is private because two keys may see different lists. */
const CACHED = { ttlMs: 300_000, cacheScope: 'private' } as const

/**
 * Builds the server for `exchange`. Clients of the 2025 revisions (era `legacy`) and of 2026-07-28 (`modern`)
 * get the same tools.
 */
export function createServer(exchange: Exchange, { era }: McpRequestContext): Server {
  const server = new Server(SERVER_INFO, {
    capabilities: {
      tools: { listChanged: false },
      resources: { listChanged: false, subscribe: false },
      ...(era === 'modern' ? { extensions: { [TASKS]: {} } } : {}),
    },
    instructions: INSTRUCTIONS,
    cacheHints: {
      'tools/list': CACHED,
      'resources/list': CACHED,
      'resources/templates/list': CACHED,
      'server/discover': CACHED,
      'resources/read': { ttlMs: 0, cacheScope: 'private' },
    },
  })
  const callOf = (ctx: ServerContext): ToolCall => ({
    ...exchange,
    id: ctx.mcpReq.id,
    meta: ctx.mcpReq._meta,
    notify: ctx.mcpReq.notify,
    takesTasks: declaresTasks(ctx),
  })
  server.setRequestHandler('tools/list', () => ({ tools: toolsFor(exchange) }))
  server.setRequestHandler('tools/call', async ({ params }, ctx) => {
    const tool = BY_NAME.get(params.name)
    if (tool === undefined)
      throw new ProtocolError(
        ProtocolErrorCode.InvalidParams,
        `There is no tool ${params.name.slice(0, 100)}.`,
      )
    const call = callOf(ctx)
    try {
      return await tool.call(parse(tool.input, params.arguments ?? {}, 'the input'), call)
    } catch (error) {
      return errorResult(call, error)
    }
  })
  server.setRequestHandler('resources/list', () => ({ resources: [] }))
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: RESOURCE_TEMPLATES }))
  server.setRequestHandler('resources/read', ({ params }) => readResource(exchange, params.uri))
  installTasks(server, callOf)
  return server
}
