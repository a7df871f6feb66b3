/**
 * A code tool as options of Mastra's `createTool`: `createTool(mastraTool(codeTool))`. Spread them to add
 * `requireApproval`. Nothing of Mastra is imported.
 */
import type { CodeInput } from './code-input.ts'
import type { CodeResult } from './code-result.ts'
import type { CodeTool } from './code-tool.ts'
import type { StandardSchema } from './json-schema.ts'

/** A part of a tool's output for the model, in the form of AI SDK 5 that Mastra uses. */
export type MastraPart = { type: 'text'; text: string } | { type: 'media'; data: string; mediaType: string }

/** What the adapter reads of a `ToolExecutionContext`. */
interface Context {
  abortSignal?: AbortSignal | undefined
  requestContext?: unknown
  agent?: { toolCallId: string; threadId?: string | undefined } | undefined
  workflow?: { runId: string } | undefined
}

export interface MastraTool {
  id: string
  description: string
  inputSchema: StandardSchema<CodeInput>
  execute(input: CodeInput, context?: Context): Promise<CodeResult>
  toModelOutput(output: unknown): { type: 'content'; value: MastraPart[] }
}

/**
 * The thread of an agent, or the run of a workflow, identifies the conversation. If the code tool's `session`
 * is a function, it gets `requestContext`. Mastra may repeat a call when it resumes a run, so a call with the
 * same ID and input runs once.
 */
export function mastraTool(codeTool: CodeTool): MastraTool {
  return {
    id: codeTool.name,
    description: codeTool.description,
    inputSchema: codeTool.schema,
    execute: async (input, context = {}) =>
      codeTool.run(input, {
        signal: context.abortSignal,
        toolCallId: context.agent?.toolCallId,
        mayRepeat: true,
        conversation: context.agent?.threadId ?? context.workflow?.runId,
        context: context.requestContext,
      }),
    toModelOutput: (output) => ({
      type: 'content',
      value: codeTool
        .forModel(output as CodeResult)
        .map((part) =>
          part.type === 'text' ? part : { type: 'media', data: part.data, mediaType: part.mediaType },
        ),
    }),
  }
}
