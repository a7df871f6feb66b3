import { describe, expect, it } from 'vitest'
import { parseServerEvents, type ServerEvent } from './event-stream.ts'

async function parsed(...chunks: (string | Uint8Array)[]): Promise<ServerEvent[]> {
  const bytes = async function* () {
    for (const chunk of chunks) yield typeof chunk === 'string' ? new TextEncoder().encode(chunk) : chunk
  }
  return Array.fromAsync(parseServerEvents(bytes()))
}

describe('a stream of server-sent events', () => {
  it('yields each message with the last ID so far', async () => {
    expect(await parsed('id: 1-0\nevent: queued\ndata: {"a":1}\n\n', 'data: two\n\n')).toEqual([
      { id: '1-0', data: '{"a":1}' },
      { id: '1-0', data: 'two' },
    ])
  })

  it('accepts CR, LF and CRLF, wherever a chunk ends', async () => {
    const text = 'id: 7-1\r\ndata: a\r\ndata: b\r\n\r\nid: 8-0\rdata: c\r\r'
    const whole = [
      { id: '7-1', data: 'a\nb' },
      { id: '8-0', data: 'c' },
    ]
    expect(await parsed(text, '\n')).toEqual(whole)
    expect(await parsed(...Array.from(text), '\n')).toEqual(whole)
  })

  it('joins characters that are split between chunks', async () => {
    const bytes = new TextEncoder().encode('data: ä€😀\n\n')
    expect(await parsed(...[...bytes].map((byte) => Uint8Array.of(byte)))).toEqual([{ id: '', data: 'ä€😀' }])
  })

  it('ignores comments, unknown fields, messages without data, and an incomplete message', async () => {
    expect(await parsed(': \n\nretry: 5\n\nfield\n\nid: 3-0\n\ndata: x\n\ndata: cut')).toEqual([
      { id: '3-0', data: 'x' },
    ])
  })

  it('refuses an endless line and an endless message', async () => {
    await expect(parsed('data: ', 'x'.repeat(300_000))).rejects.toThrow('endless line')
    await expect(parsed('data: x\n'.repeat(150_000))).rejects.toThrow('endless message')
  })
})
