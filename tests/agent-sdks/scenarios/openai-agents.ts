import { openAiAgentsTool } from '@cofferdam/tools/openai-agents'
import { Agent, run, setTracingDisabled, tool } from '@openai/agents'
import { assistantMessage, functionCall, ScriptedModel } from '@openai/agents/testing'
import { runCases } from './cases.ts'

setTracingDisabled(true)

await runCases('openai-agents', async ({ tool: codeTool, input, toolCallId, signal }) => {
  // OpenAI's strict schemas demand null for a field that is left out.
  const args = { files: null, ...input }
  const model = new ScriptedModel([
    [functionCall(codeTool.name, args, { callId: toolCallId })],
    [assistantMessage('done')],
  ])
  const agent = new Agent({ name: 'coder', model, tools: [tool(openAiAgentsTool(codeTool))] })
  await run(agent, 'Run it.', { signal }).catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
  const sent = model.calls[1]?.request.input ?? []
  if (typeof sent === 'string') throw new Error('expected items')
  for (const item of sent) {
    if (item.type !== 'function_call_result') continue
    const parts = [item.output].flat()
    const text = parts.map((part) => (typeof part === 'object' && 'text' in part ? part.text : '')).join('')
    return { text, images: parts.flatMap(imagesIn) }
  }
  return null
})

/** The SDK makes data URLs of images. */
function imagesIn(part: unknown): string[] {
  const { type, image } = part as { type?: string; image?: unknown }
  if (type !== 'input_image' && type !== 'image') return []
  const found = /data:image\/png;base64,([A-Za-z0-9+/=]+)/.exec(JSON.stringify(image))?.[1]
  if (found === undefined) throw new Error(`unexpected image: ${JSON.stringify(part).slice(0, 200)}`)
  return [found]
}
