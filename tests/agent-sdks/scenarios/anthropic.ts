import Anthropic from '@anthropic-ai/sdk'
import { anthropicTool } from '@cofferdam/tools/anthropic'
import { runCases, type Case, type Seen } from './cases.ts'

/** Answers as the API would: first with the call of the tool, then with the end of the turn. */
function fakeApi({ toolCallId, input, tool }: Case, sent: string[]): typeof fetch {
  const answer = (stop_reason: string, content: object) => ({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'scripted',
    stop_reason,
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
    content: [content],
  })
  return async (_url, options) => {
    const first = sent.push(options?.body as string) === 1
    const body = first
      ? answer('tool_use', { type: 'tool_use', id: toolCallId, name: tool.name, input })
      : answer('end_turn', { type: 'text', text: 'done' })
    return Response.json(body)
  }
}

interface Block {
  type: string
  text?: string
  source?: { data: string }
}

await runCases('anthropic', async (one): Promise<Seen | null> => {
  const sent: string[] = []
  const client = new Anthropic({ apiKey: 'none', fetch: fakeApi(one, sent), maxRetries: 0 })
  const runner = client.beta.messages.toolRunner(
    {
      model: 'scripted',
      max_tokens: 1000,
      messages: [{ role: 'user', content: 'Run it.' }],
      tools: [anthropicTool(one.tool, { signal: one.signal })],
    },
    { signal: one.signal },
  )
  await runner.runUntilDone().catch((error: unknown) => {
    if (!one.signal.aborted) throw error
  })
  const { messages = [] } = JSON.parse(sent[1] ?? '{}') as {
    messages?: { content: { type: string; content: Block[] }[] }[]
  }
  const result = messages.at(-1)?.content.find(({ type }) => type === 'tool_result')
  if (result === undefined) return null
  return {
    text: result.content.map(({ text = '' }) => text).join(''),
    images: result.content.flatMap(({ source }) => (source === undefined ? [] : [source.data])),
  }
})
