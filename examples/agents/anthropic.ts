/**
 * Anthropic SDK: the tool runner calls the tool until the model is done. The API is scripted and needs no
 * key.
 *
 *   npm install @cofferdam/tools @anthropic-ai/sdk
 *
 * Output:
 *   The sum is 5050.
 */
import Anthropic from '@anthropic-ai/sdk'
import { anthropicTool } from '@cofferdam/tools/anthropic'
import { answerFrom, CALL, codeTool, QUESTION } from './code-tool.ts'

/** Answers instead of the API: first with a tool call, then with a text that quotes the tool's result. */
const scripted: typeof fetch = async (_url, options) => {
  const { messages } = JSON.parse(options?.body as string) as {
    messages: { content: string | { type: string; content?: { text: string }[] }[] }[]
  }
  const last = messages.at(-1)?.content
  const result = Array.isArray(last) ? last.find(({ type }) => type === 'tool_result') : undefined
  const content = result
    ? { type: 'text', text: answerFrom(result.content?.[0]?.text ?? '') }
    : { type: 'tool_use', id: CALL.id, name: CALL.name, input: CALL.input }
  const stop_reason = result ? 'end_turn' : 'tool_use'
  const usage = { input_tokens: 1, output_tokens: 1 }
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'scripted', usage }
  return Response.json({ ...message, stop_reason, stop_sequence: null, content: [content] })
}

const anthropic = new Anthropic({ apiKey: 'none', fetch: scripted }) // for a real model: new Anthropic()
const giveUp = AbortSignal.timeout(120_000)

const answer = await anthropic.beta.messages.toolRunner(
  {
    model: 'claude-sonnet-4-5',
    max_tokens: 4096,
    messages: [{ role: 'user', content: QUESTION }],
    tools: [anthropicTool(codeTool, { signal: giveUp })],
  },
  { signal: giveUp },
)
for (const block of answer.content) if (block.type === 'text') console.log(block.text)
