/**
 * OpenAI Agents: an agent that runs code. The model is scripted and needs no key.
 *
 *   npm install @cofferdam/tools @openai/agents zod
 *
 * Output:
 *   The sum is 5050.
 */
import { openAiAgentsTool } from '@cofferdam/tools/openai-agents'
import { Agent, run, setTracingDisabled, tool } from '@openai/agents'
import { assistantMessage, functionCall, ScriptedModel } from '@openai/agents/testing'
import { answerFrom, CALL, codeTool, QUESTION } from './code-tool.ts'

// Without this, the SDK sends traces to OpenAI.
setTracingDisabled(true)

const scripted = new ScriptedModel([
  [functionCall(CALL.name, { ...CALL.input, files: null }, { callId: CALL.id })],
  {
    type: 'responder',
    respond({ request: { input } }) {
      const result = typeof input === 'string' ? undefined : input.at(-1)
      if (result?.type !== 'function_call_result') throw new Error('expected the result of the tool')
      const [part] = [result.output].flat()
      return [assistantMessage(answerFrom(typeof part === 'object' && 'text' in part ? part.text : ''))]
    },
  },
])

const agent = new Agent({
  name: 'analyst',
  instructions: 'Compute with code. Never guess.',
  model: scripted, // for a real model: its name, such as 'gpt-5.2'
  tools: [tool(openAiAgentsTool(codeTool))],
})
const { finalOutput } = await run(agent, QUESTION)
console.log(finalOutput)
