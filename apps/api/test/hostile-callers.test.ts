/** Callers that hold sockets, bodies and streams, or guess keys. Everybody else must still be served. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { errorBodySchema } from '@cofferdam/contract'
import { createLogger } from '@cofferdam/telemetry'
import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const WAIT = { timeout: 20_000, interval: 10 }
const MIB = 1024 * 1024

const listen = async (api: FastifyInstance): Promise<number> => {
  await api.listen({ host: '127.0.0.1', port: 0 })
  const address = api.server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** Opens a connection and sends `text`. `said` collects the answer. */
async function dial(port: number, text: string) {
  const socket = connect(port, '127.0.0.1')
  const line = { socket, said: '', isClosed: false }
  socket.setEncoding('utf8').on('data', (chunk: string) => (line.said += chunk))
  socket.on('error', () => undefined).once('close', () => (line.isClosed = true))
  await once(socket, 'connect')
  socket.write(text)
  return line
}

const head = (path: string, length: number, headers: Record<string, string>): string =>
  [
    `POST ${path} HTTP/1.1`,
    'Host: x',
    'Content-Type: application/json',
    `Content-Length: ${length}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    '\r\n',
  ].join('\r\n')

const codeIn = (said: string): string =>
  errorBodySchema.parse(JSON.parse(said.slice(said.indexOf('\r\n\r\n') + 4))).error.code

const enqueue = (port: number, headers: Record<string, string>, source = 'x'): Promise<Response> =>
  fetch(`http://127.0.0.1:${port}/v1/executions`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(execution(source, { tenant_id: headers === scene.globex ? 'globex' : 'acme' })),
  })

describe('a request body', () => {
  it('is refused before it is sent when the key, the path or the method is wrong', async () => {
    const port = await listen(await scene.another())
    for (const [path, headers, status] of [
      ['/v1/executions', {}, 401],
      ['/v1/executions', { authorization: `Bearer cfd_${'1'.repeat(40)}` }, 401],
      ['/v1/executions', { authorization: `Bearer cfd_${'1'.repeat(40)}`, expect: '100-continue' }, 401],
      ['/v1/nothing', scene.admin, 404],
      ['/nothing', {}, 404],
      ['/healthz', {}, 405],
    ] as const) {
      const line = await dial(port, head(path, 20 * MIB, headers))
      await vi.waitFor(() => expect(line.isClosed).toBe(true), WAIT)
      expect(line.said).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    }
  })

  it('uses none of the body budget before its bytes arrive, whoever announces it', async () => {
    const port = await listen(await scene.another({ bodyBytes: 2000 }))
    const idle = await Promise.all(
      [{}, scene.acme, scene.acme, scene.acme].map((key) => dial(port, head('/v1/executions', 1500, key))),
    )
    for (const key of [scene.acme, scene.globex])
      expect((await enqueue(port, key, 'x'.repeat(600))).status).toBe(202)
    for (const { socket } of idle) socket.destroy()
  })

  it('uses the budget as its bytes arrive, up to its tenant’s share', async () => {
    const port = await listen(await scene.another({ bodyBytes: 4000 }))
    const hog = await dial(port, `${head('/v1/executions', 3000, scene.acme)}${' '.repeat(1990)}`)
    await vi.waitFor(async () => {
      const refused = await enqueue(port, scene.acme)
      expect([refused.status, ((await refused.json()) as { error?: { code: string } }).error?.code]).toEqual([
        503,
        'busy',
      ])
    }, WAIT)
    expect((await enqueue(port, scene.globex)).status).toBe(202)
    hog.socket.destroy()
    await vi.waitFor(async () => expect((await enqueue(port, scene.acme)).status).toBe(202), WAIT)
  })

  it('is refused with 408 when it arrives too slowly', async () => {
    const port = await listen(await scene.another({ bodyRate: { bytes: 100, windowMs: 50 } }))
    const slow = await dial(port, `${head('/v1/executions', 1000, scene.acme)}{`)
    await vi.waitFor(() => expect(slow.isClosed).toBe(true), WAIT)
    expect(slow.said).toMatch(/^HTTP\/1.1 408 /)
    expect(codeIn(slow.said)).toBe('request_timeout')
  })

  it('is requested with 100 Continue once the key is accepted', async () => {
    const port = await listen(await scene.another())
    const text = JSON.stringify(execution('x'))
    const wanted = await dial(
      port,
      head('/v1/executions', text.length, { ...scene.acme, expect: '100-continue', connection: 'close' }),
    )
    await vi.waitFor(() => expect(wanted.said).toMatch(/^HTTP\/1.1 100 Continue\r\n\r\n/), WAIT)
    wanted.socket.write(text)
    await vi.waitFor(() => expect(wanted.said).toContain('HTTP/1.1 202 '), WAIT)
  })
})

describe('one tenant', () => {
  it('gets at most half of the event streams and of the waits with all its keys together', async () => {
    const port = await listen(await scene.another({ eventStreams: 4, waits: 4 }))
    const second = {
      authorization: `Bearer ${(await scene.store.keys.create({ tenant_id: 'acme' }, 'b')).key}`,
    }
    const accepted = await enqueue(port, scene.acme, 'wait')
    const { execution_id: id } = (await accepted.json()) as { execution_id: string }
    const open: AbortController[] = []
    // Keep the responses: fetch closes the connection of a response that is garbage-collected.
    const answers: Response[] = []
    const stream = async (headers: Record<string, string>, of = id): Promise<number> => {
      const controller = new AbortController()
      open.push(controller)
      const url = `http://127.0.0.1:${port}/v1/executions/${of}/events`
      const answer = await fetch(url, { headers, signal: controller.signal })
      answers.push(answer)
      return answer.status
    }
    expect([await stream(scene.acme), await stream(second), await stream(second)]).toEqual([200, 200, 503])
    const other = (await (await enqueue(port, scene.globex, 'wait')).json()) as { execution_id: string }
    expect(await stream(scene.globex, other.execution_id)).toBe(200)
    const feed = (headers: Record<string, string>): Promise<number> => {
      const controller = new AbortController()
      open.push(controller)
      const url = `http://127.0.0.1:${port}/v1/audit/feed?agent_id=nobody&wait=60s`
      return fetch(url, { headers, signal: controller.signal }).then(
        ({ status }) => status,
        () => 0,
      )
    }
    // Two of the three requests wait. The one that arrives last is refused, whichever it is.
    expect(await Promise.race([feed(scene.acme), feed(second), feed(scene.acme)])).toBe(503)
    expect(answers).toHaveLength(4)
    for (const controller of open) controller.abort()
    for (const one of [id, other.execution_id]) await scene.producer.cancel(one as never)
  })
})

describe('unknown keys', () => {
  it('from one address get 429 after twenty guesses, while keys that worked before still work', async () => {
    let looked = 0
    const keys = {
      ...scene.store.keys,
      verify: (key: string) => {
        looked += 1
        return scene.store.keys.verify(key)
      },
    }
    const api = await scene.another({}, { store: { ...scene.store, keys } })
    const ask = (headers: Record<string, string>) => api.inject({ url: '/v1/backends', headers })
    expect((await ask(scene.acme)).statusCode).toBe(200)
    const statuses: number[] = []
    for (let n = 0; n < 40; n += 1) {
      const reply = await ask({ authorization: `Bearer cfd_${String(n).padStart(40, '0')}` })
      statuses.push(reply.statusCode)
      if (reply.statusCode === 429) expect(reply.headers['retry-after']).toMatch(/^[1-9]\d*$/)
    }
    expect(statuses.slice(0, 20)).toEqual(Array.from({ length: 20 }, () => 401))
    expect(statuses.slice(20)).toContain(429)
    expect(looked).toBeLessThan(40)
    expect((await ask(scene.acme)).statusCode).toBe(200)
  })
})

describe('the log', () => {
  it('has one line without a stack for a refused request, and no error', async () => {
    const lines: { level: number; code?: string; err?: unknown }[] = []
    const logger = createLogger({
      service: 'test',
      destination: { write: (line: string) => void lines.push(JSON.parse(line)) },
    })
    const api = await scene.another({ bodyBytes: 10 }, { logger })
    const reply = await api.inject({
      method: 'POST',
      url: '/v1/executions',
      headers: scene.acme,
      payload: execution('x'),
    })
    expect(reply.statusCode).toBe(503)
    const info = 30
    expect(lines.filter(({ code }) => code === 'busy')).toHaveLength(1)
    expect(lines.filter(({ level, err }) => level > info || err !== undefined)).toEqual([])
  })
})
