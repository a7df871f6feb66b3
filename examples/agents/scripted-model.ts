/** The AI SDK's own offline model: it calls the code tool, then answers with what the tool said. */
import { MockLanguageModelV4 } from 'ai/test'
import { answerFrom, CALL } from './code-tool.ts'

type Options = Parameters<MockLanguageModelV4['doStream']>[0]
type Streamed = Awaited<ReturnType<MockLanguageModelV4['doStream']>>['stream']
type Part = Streamed extends ReadableStream<infer One> ? One : never

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
}

/** The text that the tool gave in this conversation. Null before it was called. */
function toolText({ prompt }: Options): string | null {
  const last = prompt.at(-1)
  if (last?.role !== 'tool') return null
  for (const part of last.content)
    if (part.type === 'tool-result' && part.output.type === 'content')
      return part.output.value.map((block) => (block.type === 'text' ? block.text : '')).join('')
  return null
}

function partsFor(options: Options): Part[] {
  const text = toolText(options)
  const start: Part = { type: 'stream-start', warnings: [] }
  if (text === null) {
    const input = JSON.stringify(CALL.input)
    const finishReason = { unified: 'tool-calls', raw: undefined } as const
    const call: Part = { type: 'tool-call', toolCallId: CALL.id, toolName: CALL.name, input }
    return [start, call, { type: 'finish', finishReason, usage }]
  }
  return [
    start,
    { type: 'text-start', id: '1' },
    { type: 'text-delta', id: '1', delta: answerFrom(text) },
    { type: 'text-end', id: '1' },
    { type: 'finish', finishReason: { unified: 'stop', raw: undefined }, usage },
  ]
}

export const scriptedModel = (): MockLanguageModelV4 =>
  new MockLanguageModelV4({
    doStream: async (options) => ({ stream: ReadableStream.from(partsFor(options)) }),
  })
