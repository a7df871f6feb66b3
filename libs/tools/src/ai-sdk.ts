/**
 * A code tool as a tool of the Vercel AI SDK 7: `generateText({ tools: { run_code: aiSdkTool(codeTool) } })`.
 * Nothing of the SDK is imported.
 */
import type { CodeInput } from './code-input.ts'
import type { CodeResult } from './code-result.ts'
import type { CodeTool } from './code-tool.ts'
import type { StandardSchema } from './json-schema.ts'

/** A part of a tool's output, as providers of the AI SDK take it. */
export type AiSdkPart =
  | { type: 'text'; text: string }
  | { type: 'file'; data: { type: 'data'; data: string }; mediaType: string; filename: string }

export interface AiSdkTool {
  description: string
  inputSchema: StandardSchema<CodeInput>
  /** Yields preliminary results with the output so far, then the result. */
  execute(
    input: CodeInput,
    options: { toolCallId: string; abortSignal?: AbortSignal; context?: unknown },
  ): AsyncIterable<CodeResult>
  /** What the model gets: text, and images as files. */
  toModelOutput(options: { output: CodeResult }): { type: 'content'; value: AiSdkPart[] }
}

/** If the code tool's `session` is a function, it gets the `context` of the SDK's run. */
export function aiSdkTool(codeTool: CodeTool): AiSdkTool {
  return {
    description: codeTool.description,
    inputSchema: codeTool.schema,
    execute: (input, { toolCallId, abortSignal, context }) =>
      codeTool.stream(input, { toolCallId, signal: abortSignal, context }),
    toModelOutput: ({ output }) => ({
      type: 'content',
      value: codeTool.forModel(output).map((part): AiSdkPart =>
        part.type === 'text'
          ? part
          : {
              type: 'file',
              data: { type: 'data', data: part.data },
              mediaType: part.mediaType,
              filename: part.name,
            },
      ),
    }),
  }
}
