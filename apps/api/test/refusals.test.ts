/** Requests that the API refuses: the status and the code of each, in the contract's error shape. */
import { connect } from 'node:net'
import { BOUNDS, errorBodySchema, newExecutionId } from '@cofferdam/contract'
import type { InjectOptions } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { execution, expectErrorShape, openScene, type Scene } from './scene.ts'

let scene: Scene
let port: number
beforeAll(async () => {
  scene = await openScene()
  await scene.app.listen({ host: '127.0.0.1', port: 0 })
  const address = scene.app.server.address()
  port = typeof address === 'object' && address !== null ? address.port : 0
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const JSON_TYPE = { 'content-type': 'application/json' }
const ID = newExecutionId()
const post = (payload: unknown, headers: Record<string, string> = JSON_TYPE): InjectOptions => ({
  method: 'POST',
  url: '/v1/executions',
  headers,
  payload: typeof payload === 'string' || Buffer.isBuffer(payload) ? payload : JSON.stringify(payload),
})

describe('a request', () => {
  it.each<[string, InjectOptions, number, string, RegExp?]>([
    ['an unknown path', { url: '/v2' }, 404, 'not_found'],
    ['an unknown path below /v1', { url: '/v1/secrets' }, 404, 'not_found'],
    [
      'a method that the path does not take',
      { method: 'DELETE', url: '/v1/executions' },
      405,
      'method_not_allowed',
      /GET, HEAD, POST/,
    ],
    [
      'a method that an id does not take',
      { method: 'PUT', url: `/v1/executions/${ID}` },
      405,
      'method_not_allowed',
    ],
    ['a POST to a health check', { method: 'POST', url: '/healthz' }, 405, 'method_not_allowed'],
    ['a malformed percent-encoding', { url: '/v1/executions/%E0%A4%A' }, 400, 'invalid_request'],
    ['a path part of 4,000 bytes', { url: `/v1/executions/${'a'.repeat(4000)}` }, 414, 'invalid_request'],
    ['a malformed ID', { url: '/v1/executions/1' }, 400, 'invalid_request', /id: expected exe_/],
    ['an ID in capitals', { url: `/v1/executions/${ID.toUpperCase()}` }, 400, 'invalid_request'],
    ['an unknown ID', { url: `/v1/executions/${ID}` }, 404, 'not_found'],
    ['an unknown query', { url: `/v1/tenants/acme/usage?agent=x` }, 400, 'invalid_request', /"agent"/],
    [
      'a wait without unit',
      { ...post(execution('x')), url: '/v1/executions?wait=30' },
      400,
      'invalid_request',
      /30s/,
    ],
    [
      'a wait above the maximum',
      { ...post(execution('x')), url: '/v1/executions?wait=61s' },
      400,
      'invalid_request',
      /60s/,
    ],
    ['a negative wait', { ...post(execution('x')), url: '/v1/executions?wait=-1s' }, 400, 'invalid_request'],
    ['no body', { method: 'POST', url: '/v1/executions' }, 400, 'invalid_request', /got nothing/],
    ['an empty JSON body', post(''), 400, 'invalid_request', /got nothing/],
    ['a JSON null', post('null'), 400, 'invalid_request'],
    ['a JSON array', post('[]'), 400, 'invalid_request', /an array of 0/],
    ['a JSON string', post('"x"'), 400, 'invalid_request'],
    ['broken JSON', post('{"tenant_id": "acme",}'), 400, 'invalid_request', /line 1, column 22/],
    ['JSON that nests too deep', post('['.repeat(50_000)), 400, 'invalid_request', /32 levels/],
    [
      'bytes that are not UTF-8',
      post(Buffer.from([0x22, 0xc3, 0x28, 0x22])),
      400,
      'invalid_request',
      /UTF-8/,
    ],
    ['__proto__', post('{"__proto__":{"admin":true}}'), 400, 'invalid_request', /poisons/],
    [
      'constructor.prototype',
      post('{"a":{"constructor":{"prototype":{}}}}'),
      400,
      'invalid_request',
      /poisons/,
    ],
    [
      'a body of another media type',
      post('x=1', { 'content-type': 'application/x-www-form-urlencoded' }),
      415,
      'unsupported_media_type',
    ],
    ['no content type', post('{}', { 'content-type': '' }), 415, 'unsupported_media_type'],
    [
      'a multipart body',
      post('--x', { 'content-type': 'multipart/form-data; boundary=x' }),
      415,
      'unsupported_media_type',
    ],
    [
      'a body above the size limit',
      post(Buffer.alloc(BOUNDS.requestBodyBytes + 1, 0x20)),
      413,
      'payload_too_large',
    ],
    [
      'a body longer than its Content-Length',
      { ...post('{}'), headers: { ...JSON_TYPE, 'content-length': '1' } },
      400,
      'invalid_request',
      /Content-Length/,
    ],
    [
      'a tenant that is a number',
      post(execution('x', { tenant_id: 7 })),
      400,
      'invalid_request',
      /tenant_id/,
    ],
    [
      'a tenant with a slash',
      post(execution('x', { tenant_id: '../acme' })),
      400,
      'invalid_request',
      /tenant_id/,
    ],
    ['an unknown field', post(execution('x', { is_admin: true })), 400, 'invalid_request', /is_admin/],
    [
      'a program without a type',
      post(execution('x', { program: { source: '1' } })),
      400,
      'invalid_request',
      /program/,
    ],
    [
      'a source above the size limit',
      post(execution('x'.repeat(BOUNDS.sourceBytes + 1))),
      400,
      'invalid_request',
      /program.source/,
    ],
    [
      'a soft deadline after the hard one',
      post(execution('x', { limits: { soft_timeout_ms: 2000, hard_timeout_ms: 1000 } })),
      400,
      'invalid_request',
      /soft_timeout_ms/,
    ],
    [
      'a file outside the work directory',
      post(execution('x', { files: [{ path: '../x', content: '' }] })),
      400,
      'invalid_request',
      /files.0.path/,
    ],
    [
      'an Idempotency-Key of 256 bytes',
      post(execution('x'), { ...JSON_TYPE, 'idempotency-key': 'k'.repeat(256) }),
      400,
      'invalid_request',
      /idempotency-key/,
    ],
    [
      'a malformed Last-Event-ID',
      { url: `/v1/executions/${ID}/events`, headers: { 'last-event-id': 'x' } },
      400,
      'invalid_request',
      /last-event-id/,
    ],
    [
      'an unknown backend name',
      {
        method: 'POST',
        url: '/v1/backends/toaster/test',
        headers: JSON_TYPE,
        payload: '{"tenant_id":"acme"}',
      },
      400,
      'backend_unknown',
    ],
    ['a malformed backend name', { method: 'POST', url: '/v1/backends/A_B/test' }, 400, 'invalid_request'],
    [
      'an admin’s backend test without a tenant',
      { method: 'POST', url: '/v1/backends/fake/test' },
      400,
      'invalid_request',
      /tenant_id/,
    ],
  ])('with %s is refused with the right status and code', async (_what, options, status, code, message) => {
    const reply = await scene.call(options)
    expect([reply.status, reply.json.error.code]).toEqual([status, code])
    if (message !== undefined) expect(reply.json.error.message).toMatch(message)
  })

  it('with several wrong fields gets an error that names each of them, at most twenty', async () => {
    const reply = await scene.call(post({ tenant_id: 1, program: { type: 'script', language: 'cobol' } }))
    const fields = (reply.json.error.details.problems as { field: string }[]).map((problem) => problem.field)
    expect(fields).toEqual(['tenant_id', 'agent_id', 'program.language', 'program.source'])
  })
})

describe('an API key', () => {
  it.each<[string, Record<string, string>]>([
    ['is missing', {}],
    ['is of another scheme', { authorization: 'Basic YTpi' }],
    ['is too short', { authorization: 'Bearer cfd_123' }],
    ['is in capitals', { authorization: `Bearer CFD_${'A'.repeat(40)}` }],
    ['is unknown', { authorization: `Bearer cfd_${'0'.repeat(40)}` }],
    ['is followed by more text', { authorization: `Bearer cfd_${'0'.repeat(40)} x` }],
  ])('that %s gets 401 before the path or the body is checked', async (_what, headers) => {
    for (const options of [{ url: `/v1/executions/${ID}` }, post('{broken')]) {
      const reply = await scene.app.inject({ ...options, headers: { ...options.headers, ...headers } })
      expectErrorShape(reply.statusCode, reply.json(), reply.headers)
      expect(reply.statusCode).toBe(401)
      expect(reply.headers['www-authenticate']).toBe('Bearer realm="cofferdam"')
    }
  })

  it('is accepted whatever the case of the scheme', async () => {
    const authorization = scene.acme.authorization.replace('Bearer', 'bearer')
    expect((await scene.call({ url: '/v1/tenants/acme/policy', headers: { authorization } })).status).toBe(
      200,
    )
  })
})

describe('every response', () => {
  it.each(['/healthz', '/nope', `/v1/executions/${ID}`, '/openapi.json'])(
    '(%s) has the security headers, a trace ID, and no CORS headers',
    async (url) => {
      const reply = await scene.app.inject({
        url,
        headers: { ...scene.admin, origin: 'https://evil.example' },
      })
      expect(reply.headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store',
        'content-security-policy': expect.stringContaining("default-src 'none'"),
        'x-trace-id': expect.stringMatching(/^[0-9a-f]{32}$/),
      })
      expect(Object.keys(reply.headers).filter((name) => name.startsWith('access-control'))).toEqual([])
      expect(reply.headers['x-powered-by']).toBeUndefined()
    },
  )
})

describe('failures of the API itself', () => {
  it('are 500 and reveal nothing about the cause', async () => {
    const secret = 'connect ECONNREFUSED postgres://app:hush@10.0.0.1'
    const api = await scene.another(
      {},
      {
        metrics: async () => {
          throw new Error(secret)
        },
      },
    )
    const reply = await api.inject({ url: '/metrics', headers: { host: 'localhost' } })
    expectErrorShape(reply.statusCode, reply.json(), reply.headers)
    expect(reply.statusCode).toBe(500)
    expect(reply.json()).toMatchObject({
      error: { code: 'internal', message: 'Something failed on our side.', retry: 'later' },
    })
    expect(reply.body).not.toContain('hush')
  })
})

describe('request bodies', () => {
  it('are bounded together, and a refused body uses none of the budget', async () => {
    const api = await scene.another({ bodyBytes: 10 })
    const reply = await api.inject({ ...post(execution('x')), headers: { ...JSON_TYPE, ...scene.admin } })
    expectErrorShape(reply.statusCode, reply.json(), reply.headers)
    expect(reply).toMatchObject({ statusCode: 503, headers: { 'retry-after': '1' } })
    expect(reply.json().error.code).toBe('busy')
    // The refused body must not be counted any more.
    const small = await api.inject({ ...post('{}'), headers: { ...JSON_TYPE, ...scene.admin } })
    expect(small.statusCode).toBe(400)
  })

  it('are released from the budget when they are answered', async () => {
    const api = await scene.another({ bodyBytes: 1000 })
    const url = await api.listen({ host: '127.0.0.1', port: 0 })
    for (let i = 0; i < 20; i += 1) {
      const reply = await fetch(`${url}/v1/executions`, {
        method: 'POST',
        headers: { ...scene.admin, ...JSON_TYPE },
        body: JSON.stringify(execution('x'.repeat(500))),
      })
      expect(reply.status).toBe(202)
    }
  })
})

describe('raw bytes on the connection:', () => {
  it.each<[string, string, number, string]>([
    ['bytes that are not HTTP', 'hello there\r\n\r\n', 400, 'invalid_request'],
    [
      'headers above 16 KiB',
      `GET /healthz HTTP/1.1\r\nHost: x\r\nX-Big: ${'a'.repeat(20_000)}\r\n\r\n`,
      431,
      'payload_too_large',
    ],
    [
      'a URL above 16 KiB',
      `GET /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
      431,
      'payload_too_large',
    ],
    [
      'two lengths',
      'POST /v1/executions HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n',
      400,
      'invalid_request',
    ],
    [
      'length and chunks at once',
      'POST /v1/executions HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      400,
      'invalid_request',
    ],
    [
      'a malformed chunk',
      `POST /v1/executions HTTP/1.1\r\nHost: x\r\nAuthorization: KEY\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      400,
      'invalid_request',
    ],
    ['no Host', 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', 400, 'invalid_request'],
    [
      'an expectation that the API cannot meet',
      'GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n',
      417,
      'invalid_request',
    ],
    ['CONNECT', 'CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n', 405, 'method_not_allowed'],
    ['a NUL in a header', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX-Bad: a\0b\r\n\r\n', 400, 'invalid_request'],
  ])('%s is answered in the error shape', async (_what, text, status, code) => {
    const reply = await exchange(text.replace('KEY', scene.admin.authorization))
    expect(reply.status).toBe(status)
    expect(errorBodySchema.parse(reply.json).error.code).toBe(code)
    expect(reply.head).toMatch(/x-content-type-options: nosniff/i)
    expect(reply.head).toMatch(/x-trace-id: [0-9a-f]{32}/i)
  })

  it('an incomplete body enqueues nothing, and the server continues to work', async () => {
    const socket = connect(port, '127.0.0.1')
    await new Promise<void>((resolve) => socket.once('connect', resolve))
    const head = `POST /v1/executions HTTP/1.1\r\nHost: x\r\nAuthorization: ${scene.admin.authorization}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n`
    await new Promise<unknown>((resolve) => socket.write(`${head}{"tenant_id":"globex"`, resolve))
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    socket.destroy()
    await closed
    expect((await scene.call({ url: '/v1/executions?tenant_id=globex' })).json.executions).toEqual([])
    expect((await scene.call({ url: '/healthz' })).status).toBe(200)
  })

  it('a body above the size limit is answered 413', async () => {
    const reply = await fetch(`http://127.0.0.1:${port}/v1/executions`, {
      method: 'POST',
      headers: { ...scene.admin, ...JSON_TYPE },
      body: Buffer.alloc(BOUNDS.requestBodyBytes + 1, 0x20),
    })
    expect(reply.status).toBe(413)
    expect(errorBodySchema.parse(await reply.json()).error.code).toBe('payload_too_large')
  })

  it('the largest allowed request is accepted', async () => {
    const files = [0, 1].map((n) => ({
      path: `f${n}`,
      content_base64: Buffer.alloc(BOUNDS.fileBytes - 2).toString('base64'),
    }))
    const reply = await fetch(`http://127.0.0.1:${port}/v1/executions?wait=60s`, {
      method: 'POST',
      headers: { ...scene.admin, ...JSON_TYPE },
      body: JSON.stringify(execution('large', { files })),
    })
    expect(reply.status).toBe(200)
  })
})

/** Sends bytes and reads the answer until the server closes the connection. */
async function exchange(text: string): Promise<{ status: number; head: string; json: unknown }> {
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  socket.setEncoding('utf8').on('data', (chunk: string) => (answer += chunk))
  socket.on('error', () => undefined)
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.write(text)
  await closed
  const [head = '', body = ''] = answer.split('\r\n\r\n')
  return { status: Number(head.split(' ')[1]), head, json: JSON.parse(body) }
}
