/**
 * Mastra: an agent that runs code. The model is scripted and needs no key.
 *
 *   npm install @cofferdam/tools @mastra/core zod
 *
 * Output:
 *   The sum is 5050.
 */
import { mastraTool } from '@cofferdam/tools/mastra'
import { Agent } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'
import { codeTool, QUESTION } from './code-tool.ts'
import { scriptedModel } from './scripted-model.ts'

const agent = new Agent({
  id: 'analyst',
  name: 'analyst',
  instructions: 'Compute with code. Never guess.',
  model: scriptedModel() as never, // for a real model: its name, such as 'anthropic/claude-sonnet-4-5'
  tools: { [codeTool.name]: createTool(mastraTool(codeTool)) },
})
const { textStream } = await agent.stream(QUESTION)
for await (const text of textStream) console.log(text)
