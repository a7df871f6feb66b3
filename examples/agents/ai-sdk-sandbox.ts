/**
 * An agent of the Vercel AI SDK 7 whose tools work in a sandbox of Cofferdam. The model is the SDK's mock, so
 * no key is needed. Install `ai`, `zod`, `@cofferdam/client` and `@cofferdam/tools`.
 *
 * Output:
 *   sum.py: written
 *   python3 sum.py: 6
 *   The sum is 6.
 */
import { createClient } from '@cofferdam/client'
import { createAiSdkSandbox } from '@cofferdam/tools/ai-sdk-sandbox'
import { generateText, isStepCount, tool } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { z } from 'zod'
import { address, key } from '../connect.ts'

const client = createClient({ baseUrl: address(), apiKey: key() })
const sandbox = createAiSdkSandbox({ client, tenantId: 'demo', agentId: 'examples' })

const tools = {
  write: tool({
    description: 'Write a file.',
    inputSchema: z.object({ path: z.string(), content: z.string() }),
    execute: async (file, { experimental_sandbox }) => {
      await experimental_sandbox?.writeTextFile(file)
      console.log(`${file.path}: written`)
      return 'written'
    },
  }),
  bash: tool({
    description: 'Run a command.',
    inputSchema: z.object({ command: z.string() }),
    execute: async ({ command }, { experimental_sandbox }) => {
      const result = await experimental_sandbox?.run({ command })
      console.log(`${command}: ${result?.stdout.trim()}`)
      return result
    },
  }),
}

// The scripted model. Replace it by the model of a provider, such as `anthropic('…')`.
const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
}
const call = (toolName: string, input: object) => ({
  content: [{ type: 'tool-call' as const, toolCallId: toolName, toolName, input: JSON.stringify(input) }],
  finishReason: { unified: 'tool-calls' as const, raw: undefined },
  usage,
  warnings: [],
})
const model = new MockLanguageModelV4({
  doGenerate: [
    call('write', { path: 'sum.py', content: 'print(1 + 2 + 3)' }),
    call('bash', { command: 'python3 sum.py' }),
    {
      content: [{ type: 'text', text: 'The sum is 6.' }],
      finishReason: { unified: 'stop', raw: undefined },
      usage,
      warnings: [],
    },
  ],
})

const { text } = await generateText({
  model,
  tools,
  instructions: sandbox.description,
  prompt: 'Add 1, 2 and 3 with Python.',
  stopWhen: isStepCount(10),
  experimental_sandbox: sandbox,
})
console.log(text)
await sandbox.end()
await client.close()
