import { langChainTool } from '@cofferdam/tools/langchain'
import { ToolMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { runCases } from './cases.ts'

await runCases('langchain', async ({ tool: codeTool, input, toolCallId, signal }) => {
  const runCode = tool(...langChainTool(codeTool))
  const call = { type: 'tool_call' as const, id: toolCallId, name: codeTool.name, args: input }
  const message: unknown = await runCode.invoke(call, { signal }).catch((error: unknown) => {
    if (!signal.aborted) throw error
    return null
  })
  if (message === null) return null
  if (!(message instanceof ToolMessage) || !Array.isArray(message.content)) throw new Error('no message')
  if (message.artifact?.status === undefined) throw new Error('the artifact is not the result')
  const blocks = message.contentBlocks
  return {
    text: blocks.map((block) => (block.type === 'text' ? String(block.text) : '')).join(''),
    images: blocks.flatMap((block) => (block.type === 'image' ? [String(block.data)] : [])),
  }
})
