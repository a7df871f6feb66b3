import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { openEventStream } from './streams.ts'

const owned: (() => void)[] = []
afterEach(() => {
  for (const close of owned.splice(0)) close()
})

/** A response, and the client that reads it. */
async function pair(): Promise<{
  raw: ServerResponse
  abort: AbortController
  read: Promise<IncomingMessage>
}> {
  const server = createServer().listen(0, '127.0.0.1')
  owned.push(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const client = request({ host: '127.0.0.1', port })
  client.on('error', () => undefined)
  const read = once(client, 'response').then(([response]) => response as IncomingMessage)
  client.end()
  const [, raw] = (await once(server, 'request')) as [unknown, ServerResponse]
  return { raw, abort: new AbortController(), read }
}

const event = { id: '1-0', type: 'output', data: { text: 'a\nb'.repeat(100_000) } }

describe('an event stream', () => {
  it('waits for a slow client, and continues when it reads', async () => {
    const { raw, abort, read } = await pair()
    using stream = openEventStream(raw, { headers: {}, heartbeatMs: 60_000, signal: abort.signal })
    const response = await read
    let sent = 0
    const writing = (async () => {
      for (; sent < 200; sent += 1) await stream.send(event)
    })()
    // 200 events are 80 MB: far more than the sockets take while nobody reads.
    await vi.waitFor(() => expect(raw.writableNeedDrain).toBe(true), 15_000)
    expect(sent).toBeLessThan(200)
    expect(raw.writableLength).toBeLessThan(2_000_000)
    response.resume()
    await writing
    expect(sent).toBe(200)
  })

  it('stops waiting when the client has disconnected', async () => {
    const { raw, abort, read } = await pair()
    using stream = openEventStream(raw, { headers: {}, heartbeatMs: 60_000, signal: abort.signal })
    await read
    const writing = (async () => {
      while (!abort.signal.aborted) await stream.send(event)
    })()
    await vi.waitFor(() => expect(raw.writableNeedDrain).toBe(true), 15_000)
    abort.abort()
    await writing
    await stream.send(event)
  })

  it('writes one line of data per event, and comments while nothing happens', async () => {
    const { raw, abort, read } = await pair()
    using stream = openEventStream(raw, { headers: { 'x-a': 'b' }, heartbeatMs: 5, signal: abort.signal })
    const response = await read
    expect(response.headers).toMatchObject({ 'x-a': 'b', 'content-type': 'text/event-stream; charset=utf-8' })
    let text = ''
    response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
    await stream.send({ id: '7-1', type: 'notice', data: { message: 'a\n\nid: 9' } })
    // A comment may come before the event.
    const line = 'id: 7-1\nevent: notice\ndata: {"message":"a\\n\\nid: 9"}\n\n'
    await vi.waitFor(() => expect(text).toContain(line), 15_000)
    await vi.waitFor(() => expect(text).toContain(': \n\n'), 15_000)
  })
})
