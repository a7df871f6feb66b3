/** Vercel's AI SDK: its own MCP client, and the model of its test kit. */
import { createMCPClient } from '@ai-sdk/mcp'
import { generateText, isStepCount } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { headers, playTurns, url } from './turns.mjs'

const client = await createMCPClient({ transport: { type: 'http', url, headers } })
const tools = await client.tools()

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
}
const answer = (content, unified) => ({
  content: [content],
  finishReason: { unified, raw: unified },
  usage,
  warnings: [],
})

async function turn(args, abortSignal) {
  const call = { type: 'tool-call', toolCallId: 'call-1', toolName: 'run_code', input: JSON.stringify(args) }
  const model = new MockLanguageModelV4({
    doGenerate: [answer(call, 'tool-calls'), answer({ type: 'text', text: 'done' }, 'stop')],
  })
  await generateText({ model, tools, prompt: 'go', stopWhen: isStepCount(2), abortSignal, maxRetries: 0 })
  return model.doGenerateCalls[1].prompt.findLast(({ role }) => role === 'tool').content
}

await playTurns({ tools: Object.keys(tools), turn })
await client.close()
