/** What the client repeats, how long, and what it leaves to the caller. */
import { CofferdamError, newExecutionId, toErrorBody, type ErrorCode } from '@cofferdam/contract'
import { afterEach, describe, expect, it } from 'vitest'
import { createClient, type HttpClient } from '../src/index.ts'
import { hangUp, json, startWireServer, type Handler, type WireServer } from './wire-server.ts'

const id = newExecutionId()
const input = {
  tenant_id: 'acme',
  agent_id: 'agent-1',
  program: { type: 'script', language: 'python', source: 'print(1)' },
} as const
const failure =
  (code: ErrorCode, headers: Record<string, string> = {}): Handler =>
  (request, response) => {
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
    const { http, body } = toErrorBody(new CofferdamError(code))
    json(http, body)(request, response)
  }
/** An error of a later release, which this one does not know. */
const unknownError =
  (status: number, retry: string): Handler =>
  (request, response) =>
    json(status, { error: { code: 'brand_new', message: 'Something new.', hint: '', retry } })(
      request,
      response,
    )

let server: WireServer | null = null
let client: HttpClient | null = null
async function connect(
  handlers: [Handler, ...Handler[]],
  retryForMs?: number,
): Promise<{ server: WireServer; client: HttpClient }> {
  server = await startWireServer(...handlers)
  const patience = retryForMs === undefined ? {} : { retryForMs }
  client = createClient({ baseUrl: `${server.baseUrl}/`, apiKey: 'cfd_test', ...patience })
  return { server, client }
}
afterEach(async () => {
  await client?.close()
  await server?.[Symbol.asyncDispose]()
})

const artifacts = json(200, { artifacts: [] })

describe('a call that fails', () => {
  it('is repeated when the API says later, also for an error that this release does not know', async () => {
    const { server, client } = await connect([
      unknownError(503, 'later'),
      unknownError(500, 'later'),
      artifacts,
    ])
    expect(await client.executions.artifacts(id)).toEqual([])
    expect(server.seen).toHaveLength(3)
  })

  it("is not repeated when the API's own word is never, whatever the status says", async () => {
    const { server, client } = await connect([unknownError(503, 'never')])
    await expect(client.executions.artifacts(id)).rejects.toMatchObject({
      code: 'queue_unavailable',
      retry: 'never',
      message: 'Something new.',
      details: { code: 'brand_new', status: 503 },
    })
    expect(server.seen).toHaveLength(1)
  })

  it('is repeated after Retry-After', async () => {
    const { client } = await connect([failure('rate_limited', { 'retry-after': '1' }), artifacts])
    const startMs = performance.now()
    await client.executions.artifacts(id)
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(990)
  })

  it('is left to the caller when Retry-After is long', async () => {
    const { server, client } = await connect([failure('rate_limited', { 'retry-after': '3600' })])
    await expect(client.executions.artifacts(id)).rejects.toMatchObject({
      code: 'rate_limited',
      details: { retry_after_s: 3600 },
    })
    expect(server.seen).toHaveLength(1)
  })

  it('is given up after retryForMs', async () => {
    const { server, client } = await connect([hangUp], 0)
    await expect(client.executions.artifacts(id)).rejects.toMatchObject({ code: 'queue_unavailable' })
    expect(server.seen).toHaveLength(5)
  })

  it('is not repeated once the signal has aborted, and rejects with its reason', async () => {
    const { client } = await connect([hangUp])
    const stop = new AbortController()
    const { signal } = stop
    const asked = [
      client.executions.artifacts(id, { signal }),
      client.get(id, { signal }),
      client.enqueue(input, { signal }),
    ]
    stop.abort(new Error('no longer needed'))
    for (const one of await Promise.allSettled(asked))
      expect(one).toMatchObject({ status: 'rejected', reason: { message: 'no longer needed' } })
  })

  it('is not repeated once the client is closed', async () => {
    const { server, client } = await connect([hangUp])
    const asked = client.executions.artifacts(id)
    await expect.poll(() => server.seen.length, { timeout: 10_000 }).toBeGreaterThan(0)
    const refused = expect(asked).rejects.toMatchObject({
      code: 'shutting_down',
      message: 'The client is closed.',
    })
    await client.close()
    await refused
  })

  it('is not repeated when its answer was lost and may have made a key', async () => {
    const made = json(201, { id: 'key-1', key: 'cfd_1' })
    const { server, client } = await connect([failure('busy'), hangUp, made])
    const body = { label: 'ci' }
    await expect(client.tenants.createKey('acme', body)).rejects.toMatchObject({ code: 'queue_unavailable' })
    expect(server.seen).toHaveLength(2)
    expect(await client.tenants.createKey('acme', body)).toEqual({ id: 'key-1', key: 'cfd_1' })
  })

  it('runs a routine once, because each repetition has the same key', async () => {
    const { server, client } = await connect([hangUp, json(200, { outcome: 'started' })])
    await client.routines.run('rtn_1')
    const keys = server.seen.map(({ body }) => (body as { key: string }).key)
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/)
    expect(keys[1]).toBe(keys[0])
  })

  it('reports an answer that is not JSON', async () => {
    const { client } = await connect([(_request, response) => void response.end('<html>')], 0)
    await expect(client.executions.artifacts(id)).rejects.toMatchObject({
      code: 'internal',
      message: 'The API sent an answer that is not JSON.',
    })
  })
})
