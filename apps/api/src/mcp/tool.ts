/** What a tool is, and what it gets with each call. */
import type { CallToolResult, ServerContext, Tool as ListedTool } from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { Scope } from '../oauth/scopes.ts'
import type { Exchange, Meta } from './exchange.ts'

/** One `tools/call`. */
export interface ToolCall extends Exchange {
  /** The JSON-RPC ID. */
  id: string | number
  meta: Meta
  /** Sends a message before the answer. */
  notify: ServerContext['mcpReq']['notify']
  /** Whether the client declared the tasks extension, so that a long call may be answered with a task. */
  takesTasks: boolean
}

export interface Tool<Input extends z.ZodType = z.ZodType> {
  name: string
  title: string
  /** For models: what the tool does, its limits, and what is kept between calls. At most 600 characters. */
  description: string
  input: Input
  output?: z.ZodType
  annotations: NonNullable<ListedTool['annotations']>
  /** What an access token needs to call it. */
  scope: Scope
  /** Throws CofferdamError, which becomes a tool error. */
  call(args: z.output<Input>, call: ToolCall): Promise<CallToolResult>
}

/** A tool whose `call` has the types of its input. */
export const defineTool = <Input extends z.ZodType>(tool: Tool<Input>): Tool => tool as unknown as Tool

/** The tool as `tools/list` shows it. */
export function listedTool({ name, title, description, input, output, annotations }: Tool): ListedTool {
  return {
    name,
    title,
    description,
    inputSchema: z.toJSONSchema(input, { io: 'input' }) as ListedTool['inputSchema'],
    ...(output === undefined
      ? {}
      : { outputSchema: z.toJSONSchema(output) as NonNullable<ListedTool['outputSchema']> }),
    annotations,
  }
}
