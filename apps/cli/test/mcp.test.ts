/** `cofferdam mcp` in front of a scripted API: what it sends and writes, also when things break. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import { json } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { MCP_CLIENTS } from '../src/mcp-client-config.ts'
import { relayMessages } from '../src/mcp-relay.ts'
import { runHere } from './command-here.ts'

interface Received {
  headers: IncomingMessage['headers']
  // oxlint-disable-next-line typescript/no-explicit-any
  body: any
}

let server: Server
let url = ''
let received: Received[] = []
/** What the API does with a message. */
let answer: (message: Received, response: ServerResponse) => void

async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const message = { headers: request.headers, body: await json(request) }
  received.push(message)
  answer(message, response)
}

beforeEach(async () => {
  received = []
  server = createServer((request, response) => {
    if (request.url === '/healthz') response.end('{}')
    else void receive(request, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

/** A relay with an input that the test writes. */
function startRelay() {
  const input = new PassThrough()
  const lines: string[] = []
  const stop = new AbortController()
  const done = relayMessages({
    input,
    write: (line) => lines.push(line),
    url: `${url}/mcp?tenant_id=demo`,
    key: 'cfd_key',
    stop: stop.signal,
    note: () => undefined,
  })
  return {
    done,
    stop,
    lines,
    input,
    say: (message: object) => input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`),
    until: (count: number) =>
      vi.waitFor(() => expect(lines.length).toBeGreaterThanOrEqual(count), { timeout: 10_000, interval: 10 }),
  }
}

const untilReceived = (count: number): Promise<unknown> =>
  vi.waitFor(() => expect(received.length).toBe(count), { timeout: 10_000, interval: 10 })

const reply = (response: ServerResponse, message: object, status = 200): void => {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ jsonrpc: '2.0', ...message }))
}
const call = (id: number | string) => ({
  id,
  method: 'tools/call',
  params: { name: 'run_code', arguments: {} },
})

describe('the relay', () => {
  it('passes messages of answers and of event streams on, one a line', async () => {
    answer = ({ body }, response) => {
      if (body.method !== 'tools/call') return reply(response, { id: body.id, result: { tools: [] } })
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const progress = { jsonrpc: '2.0', method: 'notifications/progress', params: { progress: 1 } }
      response.write(`event: message\ndata: ${JSON.stringify(progress)}\n\n: keepalive\n\n`)
      const result = { content: [{ type: 'text', text: 'two\nlines' }] }
      response.end(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', id: body.id, result })}\n\n`)
    }
    const relay = startRelay()
    relay.say({ id: 1, method: 'tools/list' })
    await relay.until(1)
    relay.say(call('a'))
    await relay.until(3)
    relay.input.end()
    await relay.done
    expect(relay.lines.map((line) => JSON.parse(line))).toMatchObject([
      { id: 1, result: { tools: [] } },
      { method: 'notifications/progress' },
      { id: 'a', result: { content: [{ text: 'two\nlines' }] } },
    ])
    expect(received[0]?.headers).toMatchObject({ authorization: 'Bearer cfd_key' })
  })

  it('tells the API what a client of 2026-07-28 says of itself, in headers', async () => {
    answer = ({ body }, response) => reply(response, { id: body.id, result: {} })
    const relay = startRelay()
    const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }
    relay.say({ id: 1, method: 'resources/read', params: { uri: 'cofferdam://ä', _meta } })
    await relay.until(1)
    relay.input.end()
    await relay.done
    expect(received[0]?.headers).toMatchObject({
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'resources/read',
      'mcp-name': `=?base64?${Buffer.from('cofferdam://ä').toString('base64')}?=`,
    })
  })

  it('repeats what the answer to initialize named, for clients of the 2025 revisions', async () => {
    answer = ({ body }, response) => {
      response.setHeader('mcp-session-id', 's-1')
      reply(response, { id: body.id, result: { protocolVersion: '2025-06-18' } })
    }
    const relay = startRelay()
    relay.say({ id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18' } })
    await relay.until(1)
    relay.say({ method: 'notifications/initialized' })
    await untilReceived(2)
    relay.input.end()
    await relay.done
    expect(received[1]?.headers).toMatchObject({
      'mcp-protocol-version': '2025-06-18',
      'mcp-session-id': 's-1',
    })
  })

  it('sends a call again with the same idempotency key while the API restarts', async () => {
    answer = ({ body }, response) => {
      if (received.length === 1) return void response.destroy()
      if (received.length === 2) return reply(response, { error: { code: -32_000, message: 'down' } }, 503)
      const _meta = { 'io.cofferdam/error': { code: 'queue_unavailable' } }
      if (received.length === 4) return reply(response, { id: body.id, result: { isError: true, _meta } })
      if (received.length > 4) return reply(response, { id: body.id, result: { content: [] } })
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n')
      response.destroy()
    }
    const relay = startRelay()
    relay.say(call(1))
    await vi.waitFor(() => expect(relay.lines.at(-1)).toContain('"result"'), { timeout: 10_000 })
    relay.input.end()
    await relay.done
    const keys = received.map(({ body }) => body.params._meta['io.cofferdam/idempotency_key'])
    expect([keys.length, new Set(keys).size]).toEqual([5, 1])
  })

  it('closes the request of a cancelled call, and writes no answer to it', async () => {
    const closed = Promise.withResolvers<undefined>()
    answer = (_message, response) => response.on('close', () => closed.resolve(undefined))
    const relay = startRelay()
    relay.say(call(1))
    await untilReceived(1)
    relay.say({ method: 'notifications/cancelled', params: { requestId: 1 } })
    await closed.promise
    relay.input.end()
    await relay.done
    expect(relay.lines).toEqual([])
  })

  it.each([
    ['the input ends', (relay: ReturnType<typeof startRelay>) => relay.input.end()],
    ['it is told to stop', (relay: ReturnType<typeof startRelay>) => relay.stop.abort()],
  ])('closes every request when %s', async (_what, end) => {
    const closed = Promise.withResolvers<undefined>()
    answer = (_message, response) => response.on('close', () => closed.resolve(undefined))
    const relay = startRelay()
    relay.say(call(1))
    await untilReceived(1)
    end(relay)
    await relay.done
    await closed.promise
    expect(relay.lines).toEqual([])
  })

  it.each([
    ['what is not JSON', 'hello', -32_700],
    ['a batch', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32_600],
    ['null', 'null', -32_700],
  ])('answers %s with an error', async (_what, line, code) => {
    const relay = startRelay()
    relay.input.end(`${line}\n`)
    await relay.done
    expect(relay.lines.map((text) => JSON.parse(text))).toMatchObject([{ id: null, error: { code } }])
  })

  it('passes on why the API refused a message', async () => {
    const error = {
      code: 'unauthenticated',
      message: 'The API key is unknown.',
      hint: 'Send one.',
      retry: 'never',
    }
    answer = (_message, response) => {
      response.writeHead(401, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ error }))
    }
    const relay = startRelay()
    relay.say({ id: 5, method: 'tools/list' })
    await relay.until(1)
    relay.input.end()
    await relay.done
    expect(JSON.parse(relay.lines[0] ?? '')).toMatchObject({
      id: 5,
      error: { code: -32_603, message: 'unauthenticated: The API key is unknown. Send one.' },
    })
  })
})

describe('the command', () => {
  const place = () => ({
    cwd: '/',
    env: { COFFERDAM_URL: url, COFFERDAM_API_KEY: `cfd_${'0'.repeat(40)}`, COFFERDAM_DATA_DIR: '/nowhere' },
  })

  it('says how to start a fleet when none answers', async () => {
    const { status, stdout, stderr } = await runHere(['mcp', '--url', 'http://127.0.0.1:9'], place())
    expect([status, stdout]).toEqual([1, ''])
    expect(stderr).toContain('Start one with `cofferdam up`')
  })

  it('writes nothing but messages to stdout', async () => {
    answer = ({ body }, response) => reply(response, { id: body.id, result: {} })
    const { status, stdout } = await runHere(
      ['mcp', '--tenant', 'acme', '--agent', 'coder'],
      place(),
      'oops\n',
    )
    expect(status).toBe(0)
    for (const line of stdout.trimEnd().split('\n'))
      expect(JSON.parse(line)).toMatchObject({ jsonrpc: '2.0' })
  })

  it.each(MCP_CLIENTS)('prints settings for %s that do not contain the key', async (client) => {
    const asked = ['mcp', '--print-config', client, '--tenant', 'acme']
    const { status, stdout, stderr } = await runHere(asked, place())
    expect(status).toBe(0)
    const [servers] = Object.values(JSON.parse(stdout)).filter((value) => !Array.isArray(value)) as object[]
    const { cofferdam } = servers as { cofferdam: { url?: string; args?: string[] } }
    expect(cofferdam.url ?? cofferdam.args?.slice(1)).toEqual(
      cofferdam.url === undefined ? ['mcp', '--tenant', 'acme'] : `${url}/mcp?tenant_id=acme`,
    )
    expect(stdout + stderr).not.toMatch(/cfd_0/)
  })

  it('names the clients that it knows', async () => {
    const { status, stderr } = await runHere(['mcp', '--print-config', 'emacs'], place())
    expect([status, stderr]).toEqual([2, expect.stringContaining('claude-code, claude-desktop, cursor')])
  })
})
