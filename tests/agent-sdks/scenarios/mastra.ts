import { mastraTool } from '@cofferdam/tools/mastra'
import { Agent } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'
import { runCases } from './cases.ts'
import { scripted, seenBy } from './mock-model.ts'

await runCases('mastra', async (one) => {
  const model = scripted(one)
  const agent = new Agent({
    id: 'coder',
    name: 'coder',
    instructions: 'Run code.',
    // Mastra takes models of the AI SDK, but its type for them expects a different result of doGenerate.
    model: model as never,
    tools: { run_code: createTool(mastraTool(one.tool)) },
  })
  await agent.generate('Run it.', { maxSteps: 2, abortSignal: one.signal })
  return seenBy(model)
})
