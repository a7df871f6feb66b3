/** Lists, downloads, files of sessions and audit rows, against a server of the documented protocol. */
import { newExecutionId } from '@cofferdam/contract'
import { afterEach, describe, expect, it } from 'vitest'
import { createClient, type HttpClient } from '../src/index.ts'
import { hangUp, json, startWireServer, type Handler, type WireServer } from './wire-server.ts'

const id = newExecutionId()
const session = { backend: 'docker', key: 'chat-1', tenant_id: 'acme' }
const bytes =
  (content: string | Uint8Array, status = 200): Handler =>
  (_request, response) =>
    void response.writeHead(status, { 'content-type': 'application/octet-stream' }).end(content)

let server: WireServer | null = null
let client: HttpClient | null = null
async function connect(
  ...handlers: [Handler, ...Handler[]]
): Promise<{ server: WireServer; client: HttpClient; paths: () => string[] }> {
  server = await startWireServer(...handlers)
  client = createClient({ baseUrl: server.baseUrl, apiKey: 'cfd_test' })
  const { seen } = server
  return { server, client, paths: () => seen.map(({ method, path }) => `${method} ${path}`) }
}
afterEach(async () => {
  await client?.close()
  await server?.[Symbol.asyncDispose]()
})

const accepted = { execution_id: id, status: 'queued', position: null, eta_ms: null, deduplicated: false }
const ended = (result: object): Handler =>
  json(200, { status: 'ended', result: { execution_id: id, ending: 'ok', artifacts: [], ...result } })

describe('a list', () => {
  it('fetches page after page, also past an empty one', async () => {
    const { client, paths } = await connect(
      json(200, { sessions: [{ key: 'a' }, { key: 'b' }], next_cursor: 'x' }),
      json(200, { sessions: [], next_cursor: 'y' }),
      json(200, { sessions: [{ key: 'c' }], next_cursor: null }),
    )
    const keys: string[] = []
    for await (const { key } of client.sessions.list({ tenant_id: 'acme' })) keys.push(key)
    expect(keys).toEqual(['a', 'b', 'c'])
    expect(paths()).toEqual([
      'GET /v1/sessions?tenant_id=acme',
      'GET /v1/sessions?tenant_id=acme&cursor=x',
      'GET /v1/sessions?tenant_id=acme&cursor=y',
    ])
  })

  it('fetches no page that nobody asks for', async () => {
    const { client, paths } = await connect(json(200, { sessions: [{ key: 'a' }], next_cursor: 'x' }))
    for await (const { key } of client.sessions.list()) if (key === 'a') break
    expect(paths()).toHaveLength(1)
  })

  it('gives one page with the cursor of the next', async () => {
    const page = { executions: [], next_cursor: 'x' }
    const { client, paths } = await connect(json(200, page))
    expect(await client.executions.list({ limit: 5 }).page('w')).toEqual(page)
    expect(paths()).toEqual(['GET /v1/executions?limit=5&cursor=w'])
  })
})

describe('a download', () => {
  it('has the bytes of the whole file, however they arrive', async () => {
    const whole = Uint8Array.from({ length: 300_000 }, (_, at) => at % 251)
    const { client, paths } = await connect((_request, response) => {
      response.writeHead(200)
      response.write(whole.subarray(0, 7), () => response.end(whole.subarray(7)))
    })
    expect(await client.executions.artifact(id, 'folder/ä #1.bin')).toEqual(whole)
    expect(paths()).toEqual([`GET /v1/executions/${id}/artifacts/folder/%C3%A4%20%231.bin`])
  })

  it('is repeated as a whole when it breaks off', async () => {
    const { client } = await connect((_request, response) => {
      response.writeHead(200, { 'content-length': 4 })
      response.write('ab', () => response.socket?.destroy())
    }, bytes('abcd'))
    expect(await client.executions.output(id, 'stdout')).toBe('abcd')
  })

  it('asks for a part by its first and last byte', async () => {
    const { server, client } = await connect(bytes('cd', 206))
    expect(await client.executions.output(id, 'stderr', { range: { first: 2, last: 3 } })).toBe('cd')
    expect(server.seen[0]?.headers['range']).toBe('bytes=2-3')
  })
})

describe('the files of a session', () => {
  it('are written as bytes', async () => {
    const { server, client, paths } = await connect(
      (_request, response) => void response.writeHead(204).end(),
    )
    await client.sessions.writeFile(session, 'a/b.json', '"ä"')
    expect(paths()).toEqual(['PUT /v1/backends/docker/sessions/chat-1/files/a/b.json?tenant_id=acme'])
    expect(server.seen[0]).toMatchObject({
      body: 'ä',
      headers: { 'content-type': 'application/octet-stream' },
    })
  })

  it('are waited for when their turn comes late', async () => {
    const listing = { files: [{ path: 'a.txt', size: 1 }], truncated: false }
    const running = json(200, { status: 'running', result: null })
    const { client, paths } = await connect(json(202, accepted), running, ended({ value: listing }))
    expect(await client.sessions.files(session, 'folder')).toEqual(listing)
    expect(paths()).toEqual([
      'GET /v1/backends/docker/sessions/chat-1/files?tenant_id=acme&folder=folder',
      `GET /v1/executions/${id}`,
      `GET /v1/executions/${id}`,
    ])
  })

  it('are fetched as an artifact of the execution when their turn comes late', async () => {
    const stored = ended({ artifacts: [{ path: 'stored', size: 2, sha256: '' }] })
    const { client, paths } = await connect(json(202, accepted), stored, bytes('ab'))
    expect(new TextDecoder().decode(await client.sessions.readFile(session, 'a.txt'))).toBe('ab')
    expect(paths().at(-1)).toBe(`GET /v1/executions/${id}/artifacts/stored`)
  })

  it('reject with the failure that a late operation ended with', async () => {
    const refused = ended({ ending: 'policy_denied', reason: 'template', error_message: 'Not allowed.' })
    const { client } = await connect(json(202, accepted), refused)
    await expect(client.sessions.removeFile(session, 'a.txt')).rejects.toMatchObject({
      code: 'conflict',
      message: 'Not allowed.',
      details: { execution_id: id, reason: 'template' },
    })
  })
})

describe('a session on disk', () => {
  it('is paused and resumed by one call each', async () => {
    const done: Handler = (_request, response) => void response.writeHead(204).end()
    const { client, paths } = await connect(done, done)
    await client.sessions.pause(session)
    await client.sessions.resume(session)
    expect(paths()).toEqual([
      'POST /v1/backends/docker/sessions/chat-1/pause?tenant_id=acme',
      'POST /v1/backends/docker/sessions/chat-1/resume?tenant_id=acme',
    ])
  })

  it('is forked, and the new sessions are waited for when the turn comes late', async () => {
    const made = { sessions: [{ key: 'one', session_id: 'ses_1' }] }
    const { server, client, paths } = await connect(
      json(200, made),
      json(202, accepted),
      ended({ value: made }),
    )
    expect(await client.sessions.fork(session, ['one'])).toEqual(made)
    expect(await client.sessions.fork(session, ['one'])).toEqual(made)
    expect(paths()[0]).toBe('POST /v1/backends/docker/sessions/chat-1/fork?tenant_id=acme')
    expect(server.seen[0]).toMatchObject({ body: { keys: ['one'] } })
  })

  it('is not forked again when the answer is lost, since it may have been forked', async () => {
    const { client, paths } = await connect(hangUp)
    await expect(client.sessions.fork(session, ['one'])).rejects.toThrow()
    expect(paths()).toHaveLength(1)
  })
})

describe('audit rows', () => {
  const row = (attempt: number) => ({ execution_id: id, attempt })
  const line = (attempt: number): string => `${JSON.stringify(row(attempt))}\n`

  it('of an export continue after the last complete row when it breaks off', async () => {
    const { client, paths } = await connect(
      (_request, response) => {
        response.writeHead(200, { 'content-length': 10_000 })
        response.write(line(1) + line(2) + line(3).slice(0, 20), () => response.socket?.destroy())
      },
      hangUp,
      (_request, response) => void response.end(line(3)),
    )
    expect(await Array.fromAsync(client.audit.export({ tenant_id: 'acme' }))).toEqual([
      row(1),
      row(2),
      row(3),
    ])
    expect(paths().slice(1)).toEqual([
      `GET /v1/audit/export?tenant_id=acme&after=${id}.2`,
      `GET /v1/audit/export?tenant_id=acme&after=${id}.2`,
    ])
  })

  it('are followed by the cursor of each page, past empty ones', async () => {
    const { client, paths } = await connect(
      json(200, { invocations: [], cursor: 'a' }),
      json(200, { invocations: [row(1)], cursor: 'b' }),
      json(200, { invocations: [row(2)], cursor: 'c' }),
    )
    const attempts: number[] = []
    for await (const { invocations } of client.audit.follow({ cursor: 'beginning' })) {
      attempts.push(...invocations.map(({ attempt }) => attempt))
      if (attempts.length === 2) break
    }
    expect(attempts).toEqual([1, 2])
    expect(paths()).toEqual(
      ['beginning', 'a', 'b'].map((cursor) => `GET /v1/audit/feed?cursor=${cursor}&wait=30000ms`),
    )
  })
})
