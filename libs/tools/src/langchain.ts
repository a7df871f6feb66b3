/**
 * A code tool as the arguments of LangChain's `tool`: `tool(...langChainTool(codeTool))`. Nothing of
 * LangChain is imported.
 */
import type { CodeResult } from './code-result.ts'
import type { CodeTool } from './code-tool.ts'
import type { ObjectSchema } from './json-schema.ts'

/** A standard content block of LangChain 1. */
export type LangChainBlock =
  | { type: 'text'; text: string }
  | { type: 'image'; mimeType: string; data: string }

/** What the adapter reads of a `ToolRunnableConfig`. */
interface Config {
  signal?: AbortSignal | undefined
  toolCall?: { id?: string | undefined } | undefined
  configurable?: Record<string, unknown> | undefined
  context?: unknown
}

export type LangChainTool = [
  run: (input: unknown, config?: Config) => Promise<[LangChainBlock[], CodeResult]>,
  fields: {
    name: string
    description: string
    schema: ObjectSchema
    responseFormat: 'content_and_artifact'
  },
]

/**
 * LangGraph's `thread_id` identifies the conversation. If the code tool's `session` is a function, it gets
 * the `context` of the run. The message has text and images, and its `artifact` is the whole result.
 */
export function langChainTool(codeTool: CodeTool): LangChainTool {
  const { name, description, inputSchema } = codeTool
  return [
    async (input, config = {}) => {
      const thread = config.configurable?.['thread_id']
      const result = await codeTool.run(input, {
        signal: config.signal,
        toolCallId: config.toolCall?.id,
        conversation: typeof thread === 'string' ? thread : undefined,
        context: config.context,
      })
      const blocks = codeTool
        .forModel(result)
        .map((part): LangChainBlock =>
          part.type === 'text' ? part : { type: 'image', mimeType: part.mediaType, data: part.data },
        )
      return [blocks, result]
    },
    { name, description, schema: inputSchema, responseFormat: 'content_and_artifact' },
  ]
}
