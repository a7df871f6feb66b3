/**
 * Vercel AI SDK: a tool whose output is shown while the program runs. The model is scripted and needs no key.
 *
 *   npm install @cofferdam/tools ai
 *
 * Output:
 *   [run_code] ended: "5050\n"
 *   The sum is 5050.
 */
import { aiSdkTool } from '@cofferdam/tools/ai-sdk'
import { isStepCount, streamText } from 'ai'
import { codeTool, QUESTION } from './code-tool.ts'
import { scriptedModel } from './scripted-model.ts'

const { stream } = streamText({
  model: scriptedModel(), // for a real model: its name, such as 'anthropic/claude-sonnet-4.5'
  tools: { [codeTool.name]: aiSdkTool(codeTool) },
  prompt: QUESTION,
  stopWhen: isStepCount(10),
})

for await (const part of stream) {
  if (part.type === 'error') throw part.error
  if (part.type === 'text-delta') console.log(part.text)
  if (part.type !== 'tool-result' || part.dynamic === true) continue
  const { status, stdout } = part.output
  // Preliminary results come while the program runs. A user interface shows the newest one.
  const show = part.preliminary === true ? console.error : console.log
  show(`[${part.toolName}] ${status}: ${JSON.stringify(stdout)}`)
}
