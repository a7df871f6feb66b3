/** What all examples share: the code tool, and the call that their scripted models make. */
import { readFileSync } from 'node:fs'
import { createClient, createCodeTool, type CodeTool } from '@cofferdam/tools'

/** Finds the fleet that `npm start` runs: its address, and the key in its data directory. */
const client = createClient({
  baseUrl: process.env['COFFERDAM_URL'] ?? 'http://127.0.0.1:7070',
  apiKey: process.env['COFFERDAM_API_KEY'] ?? readFileSync('.data/admin.key', 'utf8').trim(),
})

export const codeTool: CodeTool = createCodeTool({ client, tenantId: 'demo', agentId: 'examples' })

export const QUESTION = 'What is the sum of the numbers from 1 to 100?'

/** What a model would answer to the question. */
export const CALL = {
  id: 'call_5f0c1e7a9b',
  name: codeTool.name,
  input: { language: 'python' as const, source: 'print(sum(range(1, 101)))' },
}

/** The answer of a scripted model, which quotes the last line of what the tool said. */
export const answerFrom = (toolText: string): string => `The sum is ${toolText.trim().split('\n').at(-1)}.`
