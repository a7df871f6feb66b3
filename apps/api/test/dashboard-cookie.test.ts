/** What the dashboard's cookie is good for, and what other pages and hostile clients get with it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, cookieOf, listen, OWN, signIn, type Ask } from './browser.ts'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
let port: number
const cookies = { admin: '', acme: '', globex: '' }

beforeAll(async () => {
  scene = await openScene()
  port = await listen(scene.app)
  for (const name of ['admin', 'acme', 'globex'] as const)
    cookies[name] = cookieOf(await signIn(port, { api_key: scene[name].authorization.slice(7) }))
})
afterAll(() => scene?.[Symbol.asyncDispose]())

/** Sends a request with a cookie and these other headers. */
const withCookie = (cookie: string, { headers, ...rest }: Ask) =>
  ask(port, { ...rest, headers: { ...headers, cookie } })
const enqueue = (headers: Record<string, string>, cookie = cookies.acme) =>
  withCookie(cookie, { method: 'POST', path: '/v1/executions', body: execution('x'), headers })

describe('the cookie', () => {
  it('reads and changes what its key may, when the dashboard sends it', async () => {
    const headers = { 'sec-fetch-site': 'same-origin' }
    expect((await withCookie(cookies.acme, { path: '/v1/executions', headers })).status).toBe(200)
    expect((await enqueue(OWN)).status).toBe(202)
    const own = { origin: `http://127.0.0.1:${port}`, 'x-cofferdam-ui': '1' }
    expect((await enqueue(own)).status).toBe(202)
  })

  it.each([
    ['another site', { 'sec-fetch-site': 'cross-site' }],
    ['another port of this machine', { 'sec-fetch-site': 'same-site', origin: 'http://127.0.0.1:1' }],
    ['an address that was typed', { 'sec-fetch-site': 'none' }],
    ['nobody knows where', {}],
    ['a foreign origin', { origin: 'https://evil.example' }],
    ['an origin without a name', { origin: 'null' }],
    ['an origin that only begins like ours', { origin: 'http://127.0.0.1.evil.example' }],
    ['our host under another scheme', { origin: 'ftp://127.0.0.1' }],
  ])('from %s reads nothing and changes nothing', async (_where, headers) => {
    const before = (await scene.call({ url: '/v1/executions?tenant_id=acme' })).json.executions.length
    const image = { accept: 'image/*', 'sec-fetch-dest': 'image', 'sec-fetch-mode': 'no-cors' }
    const read = await withCookie(cookies.acme, {
      path: '/v1/tenants/acme',
      headers: { ...image, ...headers },
    })
    expect(read).toMatchObject({ status: 403, json: { error: { code: 'forbidden' } } })
    expect(read.text).not.toContain('retention_days')
    expect((await enqueue({ ...headers, 'x-cofferdam-ui': '1' } as Record<string, string>)).status).toBe(403)
    const after = (await scene.call({ url: '/v1/executions?tenant_id=acme' })).json.executions.length
    expect(after).toBe(before)
  })

  it('changes nothing without the header of the dashboard, by any method', async () => {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
      for (const value of [undefined, '', '0', 'true']) {
        const reply = await withCookie(cookies.admin, {
          method,
          path:
            method === 'POST'
              ? '/v1/executions'
              : method === 'DELETE'
                ? '/ui/session'
                : '/v1/tenants/acme/caps',
          headers: {
            'sec-fetch-site': 'same-origin',
            ...(value === undefined ? {} : { 'x-cofferdam-ui': value }),
          },
          ...(method === 'DELETE' ? {} : { body: { tenant_daily: 0 } }),
        })
        expect([method, value, reply.status]).toEqual([method, value, 403])
      }
    expect((await scene.call({ url: '/v1/tenants/acme/caps' })).json.tenant_daily).toBe(null)
  })

  it('answers no preflight, so a foreign page cannot send the header', async () => {
    const preflight = {
      origin: 'https://evil.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'x-cofferdam-ui,content-type',
    }
    for (const path of ['/v1/executions', '/ui/session']) {
      const reply = await ask(port, { method: 'OPTIONS', path, headers: preflight })
      expect(reply.status).toBe(405)
      expect(Object.keys(reply.headers).filter((name) => name.startsWith('access-control'))).toEqual([])
    }
  })

  it('of a tenant gets nothing of another tenant', async () => {
    const headers = { 'sec-fetch-site': 'same-origin' }
    const asked = [
      '/v1/tenants/acme',
      '/v1/tenants/acme/keys',
      '/v1/executions?tenant_id=acme',
      '/v1/tenants',
    ]
    for (const path of asked)
      expect([path, (await withCookie(cookies.globex, { path, headers })).status]).toEqual([path, 403])
    const { json } = await enqueue(OWN)
    const path = `/v1/executions/${json.execution_id}`
    expect((await withCookie(cookies.globex, { path, headers })).status).toBe(404)
    const cancel = { method: 'POST', path: `${path}/cancel`, headers: OWN, body: {} }
    expect((await withCookie(cookies.globex, cancel)).status).toBe(404)
    expect((await enqueue(OWN, cookies.globex)).status).toBe(403)
  })

  it('is not looked at when a key comes with it, valid or not', async () => {
    const path = '/v1/tenants/globex'
    const both = { ...OWN, ...scene.globex }
    expect((await withCookie(cookies.acme, { path, headers: both })).status).toBe(200)
    const wrong = { ...OWN, authorization: `Bearer cfd_${'2'.repeat(40)}` }
    expect((await withCookie(cookies.acme, { path: '/v1/tenants/acme', headers: wrong })).status).toBe(401)
  })

  it('is good for nothing but /v1', async () => {
    const message = { jsonrpc: '2.0', id: 1, method: 'ping' }
    const headers = { ...OWN, accept: 'application/json, text/event-stream' }
    const asked = [
      { method: 'POST', path: '/mcp', headers, body: message },
      { path: '/api/sandbox/config', headers: OWN },
      { path: '/metrics', headers: { ...OWN, 'x-forwarded-for': '192.0.2.1' } },
    ]
    for (const what of asked)
      expect([what.path, (await withCookie(cookies.admin, what)).status]).toEqual([what.path, 401])
  })

  it.each([
    '__Host-cofferdam=',
    '__Host-cofferdam=x',
    `__Host-cofferdam=${'A'.repeat(43)}`,
    `__Host-cofferdam=${'A'.repeat(8000)}`,
    '__Host-cofferdam=%00%ff%zz',
    '__Host-cofferdam="',
    `cofferdam=${'A'.repeat(43)}`,
    '__proto__=x; constructor=y; __Host-cofferdam=__proto__',
    ';;;=;=x;,',
    '__Host-cofferdam=cfd:ui:sign-in:*',
  ])('%s signs nobody in', async (cookie) => {
    for (const path of ['/ui/session', '/v1/executions']) {
      const reply = await withCookie(cookie, { path, headers: OWN })
      expect([path, reply.status]).toEqual([path, 401])
    }
  })

  it('counts once, the first, when there are several of its name', async () => {
    const twice = `${cookies.acme}; ${cookies.admin}`
    const { json } = await withCookie(twice, { path: '/ui/session', headers: OWN })
    expect(json).toMatchObject({ scope: 'tenant', tenant_id: 'acme' })
  })

  it('cannot be pushed on a browser by a foreign page', async () => {
    const body = { api_key: scene.acme.authorization.slice(7) }
    for (const headers of [{ 'sec-fetch-site': 'cross-site' }, { origin: 'https://evil.example' }]) {
      const sent = { method: 'POST', path: '/ui/session', body, headers: headers as Record<string, string> }
      const reply = await ask(port, sent)
      expect(reply.status).toBe(403)
      expect(reply.headers['set-cookie']).toBeUndefined()
    }
    // What a form can send without a preflight.
    for (const type of ['text/plain', 'application/x-www-form-urlencoded']) {
      const headers = { 'content-type': type }
      expect((await ask(port, { method: 'POST', path: '/ui/session', body, headers })).status).toBe(415)
    }
  })
})
