/** The AI SDK's own offline model with a script: it calls `run_code` once, then says that it is done. */
import { MockLanguageModelV4 } from 'ai/test'
import type { Case, Seen } from './cases.ts'

type Streamed = Awaited<ReturnType<MockLanguageModelV4['doStream']>>['stream']
type Part = Streamed extends ReadableStream<infer One> ? One : never

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
}

export function scripted({ toolCallId, input, tool }: Case): MockLanguageModelV4 {
  const call = {
    type: 'tool-call' as const,
    toolCallId,
    toolName: tool.name,
    input: JSON.stringify(input),
  }
  const calls = { unified: 'tool-calls' as const, raw: undefined }
  const stop = { unified: 'stop' as const, raw: undefined }
  const streams: Part[][] = [
    [{ type: 'stream-start', warnings: [] }, call, { type: 'finish', finishReason: calls, usage }],
    [
      { type: 'stream-start', warnings: [] },
      { type: 'text-start', id: '1' },
      { type: 'text-delta', id: '1', delta: 'done' },
      { type: 'text-end', id: '1' },
      { type: 'finish', finishReason: stop, usage },
    ],
  ]
  return new MockLanguageModelV4({
    doGenerate: [
      { content: [call], finishReason: calls, usage, warnings: [] },
      { content: [{ type: 'text', text: 'done' }], finishReason: stop, usage, warnings: [] },
    ],
    doStream: streams.map((parts) => ({ stream: ReadableStream.from(parts) })),
  })
}

/** The output of the tool in the prompt of the model's second call. Null if there was none. */
export function seenBy({ doGenerateCalls, doStreamCalls }: MockLanguageModelV4): Seen | null {
  const prompt = (doGenerateCalls[1] ?? doStreamCalls[1])?.prompt ?? []
  for (const message of prompt) {
    if (message.role !== 'tool') continue
    for (const part of message.content) {
      if (part.type !== 'tool-result') continue
      if (part.output.type !== 'content') throw new Error(`unexpected output: ${part.output.type}`)
      const texts = part.output.value.map((block) => (block.type === 'text' ? block.text : ''))
      const images = part.output.value.flatMap((block) =>
        block.type === 'file' && block.mediaType === 'image/png' && block.data.type === 'data'
          ? [String(block.data.data)]
          : [],
      )
      return { text: texts.join(''), images }
    }
  }
  return null
}
