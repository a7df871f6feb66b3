/**
 * A code tool as an MCP server inside the process, for the Claude Agent SDK: `query({ options: { mcpServers:
 * { code: claudeAgentServer(codeTool, { createSdkMcpServer, z }) } } })`. The caller passes the SDK's
 * function and zod, because this package imports neither.
 */
import { isFailure } from './code-result.ts'
import type { CodeTool } from './code-tool.ts'

/** A block of a tool's result in MCP. */
export type McpBlock = { type: 'text'; text: string } | { type: 'image'; data: string; mimeType: string }

/** One tool of `createSdkMcpServer`, as the SDK's `tool` returns it. */
export interface ClaudeAgentTool {
  name: string
  description: string
  /** A zod schema for each field. */
  inputSchema: Record<string, never>
  annotations: { readOnlyHint: boolean; destructiveHint: boolean; openWorldHint: boolean }
  handler(input: unknown, extra: unknown): Promise<{ content: McpBlock[]; isError: boolean }>
}

/** What the adapter needs of zod 4. */
interface Zod {
  fromJSONSchema(schema: never): object
}

export interface ClaudeAgentOptions<Server> {
  /** From `@anthropic-ai/claude-agent-sdk`. */
  createSdkMcpServer: (options: { name: string; version: string; tools: ClaudeAgentTool[] }) => Server
  /** zod 4.1 or newer, a peer dependency of the SDK. */
  z: Zod
  /** Name of the server. The tool is then `mcp__NAME__run_code`. Default: `cofferdam`. */
  name?: string
}

/** The server for `options.mcpServers`. A call that the SDK gives up is cancelled. */
export function claudeAgentServer<Server>(
  codeTool: CodeTool,
  { createSdkMcpServer, z, name = 'cofferdam' }: ClaudeAgentOptions<Server>,
): Server {
  const { shape } = z.fromJSONSchema(codeTool.inputSchema as never) as { shape: Record<string, never> }
  return createSdkMcpServer({
    name,
    version: '1.0.0',
    tools: [
      {
        name: codeTool.name,
        description: codeTool.description,
        inputSchema: shape,
        annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
        async handler(input, extra) {
          const result = await codeTool.run(input, callOf(extra))
          const content = codeTool
            .forModel(result)
            .map((part): McpBlock =>
              part.type === 'text' ? part : { type: 'image', data: part.data, mimeType: part.mediaType },
            )
          return { content, isError: isFailure(result) }
        },
      },
    ],
  })
}

function callOf(extra: unknown): { signal?: AbortSignal | undefined; toolCallId?: string | undefined } {
  const { signal, requestId, _meta } = (extra ?? {}) as {
    signal?: AbortSignal
    requestId?: string | number
    _meta?: Record<string, unknown>
  }
  const named = _meta?.['claudecode/toolUseId']
  return { signal, toolCallId: typeof named === 'string' ? named : requestId?.toString() }
}
