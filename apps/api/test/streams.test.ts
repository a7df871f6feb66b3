import { request as httpRequest, type IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { newExecutionId } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
let port: number
beforeAll(async () => {
  scene = await openScene()
  port = await listen(scene.app)
})
afterAll(() => scene?.[Symbol.asyncDispose]())

interface Message {
  id: string
  event: string
  data: { type: string; text?: string; ending?: string }
}

const enqueue = async (source: string, extra: object = {}): Promise<string> => {
  const reply = await scene.call({ method: 'POST', url: '/v1/executions', payload: execution(source, extra) })
  expect(reply.status).toBe(202)
  return reply.json.execution_id as string
}

describe('GET /v1/executions/{id}/events', () => {
  it('sends every event in order and ends after `ended`', async () => {
    const id = await enqueue('hello')
    const { response, messages } = await readAll(`/v1/executions/${id}/events`)
    expect(response.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store, no-transform',
      'x-content-type-options': 'nosniff',
      'x-trace-id': expect.stringMatching(/^[0-9a-f]{32}$/),
    })
    expect(messages.map((message) => message.event)).toEqual(['queued', 'started', 'output', 'ended'])
    expect(messages[2]?.data).toMatchObject({ type: 'output', stream: 'stdout', text: 'hello\n' })
    expect(messages[3]?.data).toMatchObject({ type: 'ended', ending: 'ok', exit_code: 0 })
  })

  it('resumes after Last-Event-ID, which takes precedence over ?after=', async () => {
    const id = await enqueue('hello')
    const all = (await readAll(`/v1/executions/${id}/events`)).messages
    const path = `/v1/executions/${id}/events`
    const byHeader = await readAll(path, { 'last-event-id': all[1]!.id })
    expect(byHeader.messages).toEqual(all.slice(2))
    const byQuery = await readAll(`${path}?after=${all[2]!.id}`)
    expect(byQuery.messages).toEqual(all.slice(3))
    const both = await readAll(`${path}?after=${all[2]!.id}`, { 'last-event-id': all[0]!.id })
    expect(both.messages).toEqual(all.slice(1))
  })

  it('answers 204 when the caller has seen every event, so that EventSource does not reconnect', async () => {
    const id = await enqueue('hello')
    const path = `/v1/executions/${id}/events`
    const last = (await readAll(path)).messages.at(-1)!
    expect((await readAll(path, { 'last-event-id': last.id })).response.statusCode).toBe(204)
  })

  it('sends the ending once from the store when the live events are gone', async () => {
    const id = await enqueue('fail')
    const path = `/v1/executions/${id}/events`
    const live = await readAll(path)
    await scene.redis.del(`{cofferdam}:x:${id}`, `{cofferdam}:r:${id}`, `{cofferdam}:e:${id}`)
    const { messages } = await readAll(path, { 'last-event-id': live.messages[1]!.id })
    expect(messages).toMatchObject([
      { event: 'ended', data: { type: 'ended', ending: 'error', exit_code: 3 } },
    ])
    expect((await readAll(path, { 'last-event-id': messages[0]!.id })).response.statusCode).toBe(204)
  })

  it('sends events while the program runs, and heartbeats while nothing happens', async () => {
    const id = await enqueue('wait')
    const stream = await open(`/v1/executions/${id}/events`)
    await vi.waitFor(() => expect(stream.text).toContain('event: output'), 20_000)
    expect(stream.ended).toBe(false)
    await vi.waitFor(() => expect(stream.text).toMatch(/\n: \n\n/), 20_000)
    await scene.call({ method: 'POST', url: `/v1/executions/${id}/cancel` })
    await vi.waitFor(() => expect(stream.ended).toBe(true), 20_000)
    expect(parse(stream.text).at(-1)?.data).toMatchObject({ type: 'ended', ending: 'cancelled' })
  })

  it('refuses more streams than the limit, and releases a stream when its client disconnects', async () => {
    const api = await scene.another({ eventStreams: 1 })
    const place = await listen(api)
    const id = await enqueue('wait')
    const path = `/v1/executions/${id}/events`
    const first = await open(path, {}, place)
    await vi.waitFor(() => expect(first.text).toContain('event: started'), 20_000)
    const refused = await readAll(path, {}, place)
    expect(refused.response.statusCode).toBe(503)
    expect(JSON.parse(refused.text)).toMatchObject({ error: { code: 'busy', retry: 'later' } })
    first.response.destroy()
    let second: Awaited<ReturnType<typeof open>> | undefined
    await vi.waitFor(async () => {
      second = await open(path, {}, place)
      expect(second.response.statusCode).toBe(200)
    }, 20_000)
    second?.response.destroy()
    await scene.call({ method: 'POST', url: `/v1/executions/${id}/cancel` })
  })

  it('ends its streams and waits when the server drains', async () => {
    const api = await scene.another()
    const place = await listen(api)
    const id = await enqueue('wait')
    const stream = await open(`/v1/executions/${id}/events`, {}, place)
    const waiting = send('POST', '/v1/executions?wait=60s', execution('wait', { agent_id: 'waiter' }), place)
    await vi.waitFor(() => expect(stream.text).toContain('event: started'), 20_000)
    // Wait for this execution, not for the one that the test before has just cancelled.
    const agents = async () => (await scene.producer.live('acme', 10)).map(({ agent_id }) => agent_id)
    await vi.waitFor(async () => expect(await agents()).toContain('waiter'), 20_000)
    await api.close()
    await vi.waitFor(() => expect(stream.ended).toBe(true), 20_000)
    const reply = await waiting
    expect(reply.status).toBe(202)
    for (const one of await scene.producer.live('acme', 10)) await scene.producer.cancel(one.execution_id)
  })

  it('refuses malformed IDs and cursors, and other tenants’ executions', async () => {
    const id = await enqueue('hello')
    expect((await readAll(`/v1/executions/${id}/events?after=x`)).response.statusCode).toBe(400)
    expect((await readAll('/v1/executions/x/events')).response.statusCode).toBe(400)
    expect((await readAll(`/v1/executions/${newExecutionId()}/events`)).response.statusCode).toBe(404)
    expect((await readAll(`/v1/executions/${id}/events`, scene.globex)).response.statusCode).toBe(404)
  })
})

describe('waiting for an ending', () => {
  it('stops when the client disconnects, and the execution continues', async () => {
    const abort = new AbortController()
    const key = 'disconnect-1'
    const gone = fetch(`http://127.0.0.1:${port}/v1/executions?wait=60s`, {
      method: 'POST',
      headers: { ...scene.admin, 'content-type': 'application/json' },
      body: JSON.stringify(execution('wait', { idempotency_key: key, agent_id: 'leaver' })),
      signal: abort.signal,
    }).catch((error: unknown) => error)
    const running = async () =>
      (await scene.producer.live('acme', 10)).find((one) => one.agent_id === 'leaver')
    await vi.waitFor(async () => expect((await running())?.status).toBe('running'), 20_000)
    abort.abort()
    await gone
    const again = await scene.call({
      method: 'POST',
      url: '/v1/executions?wait=100ms',
      payload: execution('wait', { idempotency_key: key, agent_id: 'leaver' }),
    })
    expect(again).toMatchObject({ status: 202, json: { status: 'running', deduplicated: true } })
    await scene.call({ method: 'POST', url: `/v1/executions/${again.json.execution_id}/cancel` })
  })

  it('is skipped beyond the limit of waits, and the answer is 202', async () => {
    const api = await scene.another({ waits: 0 })
    const reply = await api.inject({
      method: 'POST',
      url: '/v1/executions?wait=60s',
      headers: scene.admin,
      payload: execution('wait'),
    })
    expect(reply.statusCode).toBe(202)
    await scene.producer.cancel(reply.json().execution_id)
  })

  it('works for fifty requests at once', async () => {
    const replies = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        send('POST', '/v1/executions?wait=30s', execution(`n${i}`, { agent_id: `agent-${i % 7}` }), port),
      ),
    )
    expect(replies.map((reply) => reply.json.stdout)).toEqual(replies.map((_, i) => `n${i}\n`))
  })
})

async function listen(api: FastifyInstance): Promise<number> {
  await api.listen({ host: '127.0.0.1', port: 0 })
  const address = api.server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

interface Open {
  response: IncomingMessage
  text: string
  ended: boolean
}

/** Opens a response and collects what arrives. */
function open(path: string, headers: Record<string, string> = {}, at = port): Promise<Open> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: at, path, headers: { ...scene.admin, ...headers } }
    httpRequest(options, (response) => {
      const seen: Open = { response, text: '', ended: false }
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => (seen.text += chunk))
      response.on('end', () => (seen.ended = true))
      response.on('error', () => undefined)
      resolve(seen)
    })
      .on('error', reject)
      .end()
  })
}

async function readAll(path: string, headers: Record<string, string> = {}, at = port) {
  const seen = await open(path, headers, at)
  await vi.waitFor(() => expect(seen.ended).toBe(true), { timeout: 30_000, interval: 10 })
  return { response: seen.response, text: seen.text, messages: parse(seen.text) }
}

function parse(text: string): Message[] {
  return text
    .split('\n\n')
    .filter((block) => block.startsWith('id: '))
    .map((block) => {
      const fields = Object.fromEntries(
        block
          .split('\n')
          .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
      )
      return { id: fields['id']!, event: fields['event']!, data: JSON.parse(fields['data']!) }
    })
}

async function send(method: string, path: string, body: object, at: number) {
  const reply = await fetch(`http://127.0.0.1:${at}${path}`, {
    method,
    headers: { ...scene.admin, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: reply.status, json: (await reply.json()) as { execution_id: string; stdout: string } }
}
