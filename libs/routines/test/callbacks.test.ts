import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createJudgedDial } from '@cofferdam/egress'
import type { ExecutionId } from '@cofferdam/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readCallbackStatus, serveCallbacks, type CallbackTiming } from '../src/index.ts'
import { openStage, until, type Stage } from './stage.ts'

interface Received {
  headers: IncomingHttpHeaders
  body: string
  path: string
}

let stage: Stage
let owned: AsyncDisposableStack
let received: Received[]
let statuses: number[]
let server: Server
let secret: Buffer
const errors: unknown[] = []

beforeEach(async () => {
  owned = new AsyncDisposableStack()
  stage = owned.use(await openStage())
  received = []
  statuses = []
  server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      received.push({
        headers: request.headers,
        body: Buffer.concat(chunks).toString(),
        path: request.url ?? '',
      })
      const status = statuses.shift() ?? 200
      response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {})
      response.end('x'.repeat(status === 201 ? 1_000_000 : 2))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  owned.defer(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  secret = Buffer.from((await stage.store.callbackSecrets.rotate('acme')).secret.slice(6), 'base64')
  stage.work()
})
afterEach(() => owned.disposeAsync())

const port = (): number => (server.address() as AddressInfo).port

function serve(options: { allow?: string[]; timing?: Partial<CallbackTiming> } = {}): AsyncDisposable {
  return owned.use(
    serveCallbacks({
      redis: stage.connect('worker'),
      producer: stage.producer,
      store: stage.store,
      dial: createJudgedDial({
        privateAllow: options.allow ?? [`127.0.0.1/32:${port()}`],
        resolve: async (name) => (name === 'receiver.test' ? ['127.0.0.1'] : []),
      }),
      onError: (error) => void errors.push(error),
      timing: { firstMs: 50, maxMs: 200, collectMs: 50, ...options.timing },
    }),
  )
}

async function execute(url: string, tenant = 'acme', source = 'print("é")'): Promise<ExecutionId> {
  const { executionRequestSchema } = await import('@cofferdam/contract')
  const accepted = await stage.producer.put(
    executionRequestSchema.parse({
      tenant_id: tenant,
      agent_id: 'agent-1',
      program: { type: 'script', language: 'python', source },
      callback_url: url,
    }),
  )
  return accepted.execution_id
}

const ended = (id: ExecutionId, state: string) =>
  until(`${id} to be ${state}`, async () => {
    const status = await readCallbackStatus(stage.redis, id)
    return status?.state === state && status
  })

describe('a callback', () => {
  it('posts the result, signed as in Standard Webhooks, with the execution ID as webhook-id', async () => {
    const id = await execute(`http://receiver.test:${port()}/hook?a=1`)
    serve()
    expect(await ended(id, 'delivered')).toEqual({
      state: 'delivered',
      attempts: 1,
      last_status: 200,
      last_error: null,
    })
    const [{ headers, body, path }] = received as [Received]
    expect(path).toBe('/hook?a=1')
    expect(JSON.parse(body)).toMatchObject({ execution_id: id, ok: true, stdout: 'print("é")\n' })
    expect(headers['webhook-id']).toBe(id)
    expect(headers['content-type']).toBe('application/json')
    expect(Math.abs(Number(headers['webhook-timestamp']) - Date.now() / 1000)).toBeLessThan(60)
    const mac = createHmac('sha256', secret)
      .update(`${id}.${String(headers['webhook-timestamp'])}.${body}`)
      .digest('base64')
    expect(headers['webhook-signature']).toBe(`v1,${mac}`)
    expect(received).toHaveLength(1)
  })

  it('is retried until it is accepted, and follows no redirect', async () => {
    statuses = [500, 302, 404, 204]
    const id = await execute(`http://127.0.0.1:${port()}/`)
    serve()
    expect(await ended(id, 'delivered')).toMatchObject({ attempts: 4, last_status: 204 })
    expect(received.map(({ path }) => path)).toEqual(['/', '/', '/', '/'])
    expect(new Set(received.map(({ headers }) => headers['webhook-id']))).toEqual(new Set([id]))
  })

  it('stops after a 410, and when its time is over', async () => {
    statuses = [410]
    const gone = await execute(`http://127.0.0.1:${port()}/`)
    serve({ timing: { giveUpMs: 3000 } })
    expect(await ended(gone, 'failed')).toMatchObject({ attempts: 1, last_status: 410 })
    statuses = Array.from({ length: 50 }, () => 503)
    const late = await execute(`http://127.0.0.1:${port()}/`)
    const status = await ended(late, 'failed')
    expect(status.last_status).toBe(503)
    expect(status.attempts).toBeGreaterThan(1)
  })

  it('never reaches a private address in any notation, and reports nothing else about it', async () => {
    serve({ allow: [] })
    const urls = [
      `http://127.0.0.1:${port()}/`,
      `http://receiver.test:${port()}/`,
      `http://[::1]:${port()}/`,
      `http://[::ffff:127.0.0.1]:${port()}/`,
      `http://2130706433:${port()}/`,
      `http://0x7f.1:${port()}/`,
      'http://169.254.169.254/latest/meta-data/',
      'https://10.0.0.1/',
    ]
    for (const url of urls) {
      const status = await ended(await execute(url), 'failed')
      expect(status, url).toEqual({
        state: 'failed',
        attempts: 1,
        last_status: null,
        last_error: 'its address is not public',
      })
    }
    expect(received).toEqual([])
  })

  it('waits while the tenant has no secret, and is posted once there is one', async () => {
    const id = await execute(`http://127.0.0.1:${port()}/`, 'globex')
    serve()
    expect(await ended(id, 'sending')).toMatchObject({ last_error: 'the tenant has no callback secret' })
    expect(received).toEqual([])
    await stage.store.callbackSecrets.rotate('globex')
    await ended(id, 'delivered')
  })

  it('is posted even if no worker ran when it was due, and after a cancel in the queue', async () => {
    const running = await execute(`http://127.0.0.1:${port()}/`, 'acme', 'wait')
    expect(await readCallbackStatus(stage.redis, running)).toMatchObject({ state: 'waiting' })
    await stage.producer.cancel(running)
    await stage.producer.wait(running, { timeoutMs: 30_000 })
    statuses = [201]
    serve()
    await ended(running, 'delivered')
    expect(JSON.parse(received[0]!.body)).toMatchObject({ exit_status: 'cancelled' })
  })

  it('to a silent receiver of one tenant does not delay the callbacks of another tenant', async () => {
    await stage.store.callbackSecrets.rotate('globex')
    const silent = createServer(() => undefined)
    let givenUp = 0
    silent.on('connection', (socket) => socket.once('close', () => (givenUp += 1)))
    silent.listen(0, '127.0.0.1')
    await once(silent, 'listening')
    owned.defer(async () => {
      silent.closeAllConnections()
      silent.close()
    })
    const silentPort = (silent.address() as AddressInfo).port
    const ids = await Promise.all(
      Array.from({ length: 40 }, () => execute(`http://127.0.0.1:${silentPort}/`)),
    )
    const id = await execute(`http://127.0.0.1:${port()}/`, 'globex')
    for (const one of [...ids, id]) await stage.producer.wait(one, { timeoutMs: 30_000 })
    serve({ allow: [`127.0.0.1/32:${port()}`, `127.0.0.1/32:${silentPort}`] })
    await ended(id, 'delivered')
    // No post to the silent receiver has ended, because they take 15 s.
    expect(givenUp).toBe(0)
    silent.closeAllConnections()
  })
})
