/**
 * A code tool for the tool runner of Anthropic's SDK, in `tools` of `client.beta.messages.toolRunner`. It has
 * the shape that the SDK's own `betaZodTool` returns. Nothing of the SDK is imported.
 */
import type { CodeTool } from './code-tool.ts'
import type { ObjectSchema } from './json-schema.ts'

/** A block of a `tool_result`. */
export type AnthropicBlock =
  | { type: 'text'; text: string }
  | { type: 'image'; source: { type: 'base64'; media_type: ImageType; data: string } }

type ImageType = 'image/jpeg' | 'image/png' | 'image/gif' | 'image/webp'

export interface AnthropicOptions {
  /**
   * Cancels the execution. The SDK's runner for messages gives its tools no signal, so pass the signal that
   * ends the run here. The runner for sessions passes its own signal to tools.
   */
  signal?: AbortSignal
}

export interface AnthropicTool {
  type: 'custom'
  name: string
  description: string
  input_schema: ObjectSchema
  run(
    input: unknown,
    context?: { toolUse: { id: string }; signal?: AbortSignal | null | undefined },
  ): Promise<AnthropicBlock[]>
  parse(content: unknown): unknown
}

export function anthropicTool(codeTool: CodeTool, { signal }: AnthropicOptions = {}): AnthropicTool {
  const { name, description, inputSchema } = codeTool
  return {
    type: 'custom',
    name,
    description,
    input_schema: inputSchema,
    async run(input, context) {
      const own = context?.signal ?? undefined
      const both =
        own === undefined || signal === undefined ? (own ?? signal) : AbortSignal.any([own, signal])
      const result = await codeTool.run(input, { signal: both, toolCallId: context?.toolUse.id })
      return codeTool.forModel(result).map((part) =>
        part.type === 'text'
          ? part
          : {
              type: 'image',
              source: { type: 'base64', media_type: part.mediaType as ImageType, data: part.data },
            },
      )
    },
    // The code tool validates its input itself and tells the model what is wrong.
    parse: (content) => content,
  }
}
