/**
 * A code tool as options of OpenAI Agents' `tool`: `tool(openAiAgentsTool(codeTool))`. Spread them to add
 * `needsApproval`, `timeoutMs` or guardrails. Nothing of the SDK is imported.
 */
import type { CodeTool } from './code-tool.ts'
import { strictSchema, type JsonSchema } from './json-schema.ts'

/** A part of a tool's output, as the SDK sends it to the model. */
export type OpenAiPart =
  | { type: 'text'; text: string }
  | { type: 'image'; image: { data: string; mediaType: string } }

/** The details of a call that the SDK passes to `execute`. The SDK's own type has more fields. */
interface Details {
  toolCall?: { callId: string } | undefined
  signal?: AbortSignal | undefined
}

export interface OpenAiAgentsTool {
  name: string
  description: string
  /** The strict form of the input schema: every field is required, and an optional one accepts null. */
  parameters: {
    type: 'object'
    properties: Record<string, JsonSchema>
    required: string[]
    additionalProperties: false
  }
  strict: true
  execute(input: unknown, runContext?: { context: unknown }, details?: Details): Promise<OpenAiPart[]>
}

/**
 * If the code tool's `session` is a function, it gets `runContext.context`. The SDK may repeat a call when it
 * resumes a saved run, so a call with the same ID and input runs once.
 */
export function openAiAgentsTool(codeTool: CodeTool): OpenAiAgentsTool {
  const { name, description, inputSchema } = codeTool
  return {
    name,
    description,
    parameters: strictSchema(inputSchema),
    strict: true,
    async execute(input, runContext, details) {
      const result = await codeTool.run(input, {
        signal: details?.signal,
        toolCallId: details?.toolCall?.callId,
        mayRepeat: true,
        context: runContext?.context,
      })
      return codeTool
        .forModel(result)
        .map((part) =>
          part.type === 'text'
            ? part
            : { type: 'image', image: { data: part.data, mediaType: part.mediaType } },
        )
    },
  }
}
