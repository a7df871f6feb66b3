/** Server-sent events (HTML Standard §9.2): splits a byte stream into messages. */

export interface ServerEvent {
  /** The last ID so far. Empty before the first. */
  id: string
  data: string
}

/**
 * Longest message, and longest line, in characters. An event has up to 16 KiB of output, which JSON makes up
 * to six times as long.
 */
const MESSAGE_MAX = 256 * 1024

/** Yields messages that have data. Lines end with CR, LF or both. Drops an incomplete last message. */
export async function* parseServerEvents(
  body: AsyncIterable<Uint8Array>,
): AsyncGenerator<ServerEvent, void, undefined> {
  const decoder = new TextDecoder()
  let rest = ''
  let id = ''
  let data: string[] = []
  let size = 0
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true })
    if (rest.length > MESSAGE_MAX && !/[\r\n]/.test(rest))
      throw new Error('the event stream sent an endless line')
    // A CR at the very end may be the first half of CRLF, so it waits for the next chunk.
    const lines = rest.split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) yield { id, data: data.join('\n') }
        data = []
        size = 0
        continue
      }
      const { field, value } = fieldOf(line)
      if (field === 'data') {
        data.push(value)
        size += value.length + 1
        if (size > MESSAGE_MAX) throw new Error('the event stream sent an endless message')
      }
      if (field === 'id' && !value.includes('\0')) id = value
    }
  }
}

/** `field: value`, with one optional space. A line that starts with a colon is a comment. */
function fieldOf(line: string): { field: string; value: string } {
  const colon = line.indexOf(':')
  if (colon === -1) return { field: line, value: '' }
  const start = line[colon + 1] === ' ' ? colon + 2 : colon + 1
  return { field: line.slice(0, colon), value: line.slice(start) }
}
