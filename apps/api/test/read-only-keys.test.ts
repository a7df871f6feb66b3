/** Keys that only read, and the events that changes on the dashboard leave. */
import { createLogger } from '@cofferdam/telemetry'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, cookieOf, listen, OWN, signIn, type Ask } from './browser.ts'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
let port: number
const cookies = { admin: '', acme: '', reader: '' }
let readerKey = ''

beforeAll(async () => {
  scene = await openScene()
  port = await listen(scene.app)
  readerKey = (await scene.store.keys.create({ tenant_id: 'acme' }, 'screen', { readOnly: true })).key
  cookies.reader = cookieOf(await signIn(port, { api_key: readerKey }))
  for (const name of ['admin', 'acme'] as const)
    cookies[name] = cookieOf(await signIn(port, { api_key: scene[name].authorization.slice(7) }))
})
afterAll(() => scene?.[Symbol.asyncDispose]())

/** Sends a request with a cookie and these other headers. */
const withCookie = (cookie: string, { headers, ...rest }: Ask) =>
  ask(port, { ...rest, headers: { ...headers, cookie } })

describe('a read-only key', () => {
  const CHANGES: [string, string, object?][] = [
    ['POST', '/v1/executions', execution('x')],
    ['POST', '/v1/tenants/acme/callback-secret', {}],
    ['DELETE', '/v1/tenants/acme/callback-secret'],
    ['POST', '/v1/backends/fake/test', {}],
    ['POST', '/v1/routines', { name: 'x', request: execution('x') }],
    ['DELETE', '/v1/tenants/acme/workspaces/notes'],
    ['POST', '/v1/executions/exe_0190a5b5c7e0700080000000000000aa/cancel', {}],
    ['POST', '/api/sandbox/test', {}],
  ]

  it('reads, and is told why each change is refused, with key and with cookie', async () => {
    const authorization = `Bearer ${readerKey}`
    expect((await ask(port, { path: '/v1/tenants/acme', headers: { authorization } })).status).toBe(200)
    const headers = { 'sec-fetch-site': 'same-origin' }
    expect((await withCookie(cookies.reader, { path: '/v1/executions', headers })).status).toBe(200)
    expect((await withCookie(cookies.reader, { path: '/ui/session', headers })).json.read_only).toBe(true)
    for (const [method, path, body] of CHANGES) {
      const what = { method, path, ...(body === undefined ? {} : { body }) }
      const answers = [await ask(port, { ...what, headers: { authorization } })]
      if (path.startsWith('/v1')) answers.push(await withCookie(cookies.reader, { ...what, headers: OWN }))
      for (const { status, json } of answers)
        expect([path, status, json.error.message]).toEqual([path, 403, expect.stringContaining('read-only')])
    }
  })

  it('lists the tools of MCP that read, and runs none of the others', async () => {
    const call = (method: string, params: object) =>
      ask(port, {
        method: 'POST',
        path: '/mcp',
        headers: { authorization: `Bearer ${readerKey}`, accept: 'application/json, text/event-stream' },
        body: { jsonrpc: '2.0', id: 1, method, params },
      })
    const listed = await call('tools/list', {})
    expect(listed.text).toContain('get_execution')
    expect(listed.text).not.toMatch(/execute_code|cancel_execution/)
    const run = await call('tools/call', {
      name: 'execute_code',
      arguments: { language: 'python', code: '1' },
    })
    expect(run).toMatchObject({ status: 403 })
    expect(run.text).toContain('read-only')
  })

  it('of an admin sees the whole fleet and changes nothing of it', async () => {
    const make = (payload: object) => scene.call({ method: 'POST', url: '/v1/keys', payload })
    const made = await make({ label: 'wall of the fleet', read_only: true })
    expect(made).toMatchObject({ status: 201, json: { key: expect.stringMatching(/^cfd_[0-9a-f]{40}$/) } })
    const headers = { authorization: `Bearer ${made.json.key}` }
    for (const url of ['/v1/queue', '/v1/tenants/globex', '/v1/keys', '/v1/events'])
      expect([url, (await scene.call({ url, headers })).status]).toEqual([url, 200])
    for (const [method, url, payload] of [
      ['POST', '/v1/keys', { label: 'more', read_only: false }],
      ['POST', '/v1/tenants/acme/keys', { label: 'more' }],
      ['PATCH', '/v1/tenants/acme/caps', { tenant_daily: 1 }],
      ['DELETE', `/v1/keys/${made.json.id}`, undefined],
    ] as const)
      expect([url, (await scene.call({ method, url, headers, ...(payload && { payload }) })).status]).toEqual(
        [url, 403],
      )
    const events = async () => (await scene.call({ url: '/v1/events?limit=2' })).json.events
    const facts = { key_id: made.json.id, label: 'wall of the fleet', read_only: true }
    const actor = expect.stringMatching(/^key:/)
    const madeEvent = { event_type: 'admin_key_created', tenant_id: null, actor, after: facts }
    expect(await events()).toMatchObject([madeEvent, {}])

    expect((await scene.call({ method: 'DELETE', url: `/v1/keys/${made.json.id}` })).status).toBe(204)
    expect((await scene.call({ url: '/v1/queue', headers })).status).toBe(401)
    expect(await events()).toMatchObject([
      { event_type: 'admin_key_revoked', actor, before: facts },
      madeEvent,
    ])
    const { keys } = (await scene.call({ url: '/v1/keys' })).json
    expect(keys.at(-1)).toMatchObject({ id: made.json.id, read_only: true, revoked_at: expect.any(String) })
    expect(JSON.stringify(keys)).not.toContain('cfd_')
  })

  it('cannot take the place of the last admin key that may change things', async () => {
    const { keys } = (await scene.call({ url: '/v1/keys' })).json
    const [own, ...others] = keys.filter(
      (key: { read_only: boolean; revoked_at: string | null }) => !key.read_only && key.revoked_at === null,
    )
    expect(others).toEqual([])
    const revoke = (id: string, headers = {}) =>
      scene.call({ method: 'DELETE', url: `/v1/keys/${id}`, headers })
    expect(await revoke(own.id)).toMatchObject({ status: 409, json: { error: { code: 'conflict' } } })
    expect((await revoke('no-such-key')).status).toBe(404)
    const payload = { label: 'next' }
    const next = (await scene.call({ method: 'POST', url: '/v1/keys', payload })).json
    expect((await revoke(next.id, { authorization: `Bearer ${next.key}` })).status).toBe(204)
  })

  it('is made with read_only, and listed as such', async () => {
    const made = await scene.call({
      method: 'POST',
      url: '/v1/tenants/acme/keys',
      payload: { label: 'wall', read_only: true },
    })
    expect(made.status).toBe(201)
    const { keys } = (await scene.call({ url: '/v1/tenants/acme/keys' })).json
    expect(keys).toContainEqual(expect.objectContaining({ id: made.json.id, read_only: true }))
    expect(keys).toContainEqual(expect.objectContaining({ label: 'test', read_only: false }))
  })
})

describe('events of the fleet', () => {
  it('are those of its own tenant for a tenant’s key, which manages no admin keys', async () => {
    const headers = scene.globex
    await scene.store.tenants.setCaps('acme', { burst: 7 }, 'ann')
    await scene.store.tenants.setCaps('globex', { burst: 7 }, 'ann')
    const of = async (query: string, key = {}) =>
      (await scene.call({ url: `/v1/events?${query}`, headers: key })).json
    const own = await of('', headers)
    expect(new Set(own.events.map((event: { tenant_id: string }) => event.tenant_id))).toEqual(
      new Set(['globex']),
    )
    expect((await of('event_type=caps&tenant_id=acme')).events).toMatchObject([
      { tenant_id: 'acme', actor: 'ann' },
    ])
    const first = await of('event_type=caps&limit=1')
    expect(first.events).toMatchObject([{ tenant_id: 'globex' }])
    const next = await of(`event_type=caps&limit=1&cursor=${first.next_cursor}`)
    expect(next.events).toMatchObject([{ tenant_id: 'acme' }])
    for (const [method, url] of [
      ['GET', '/v1/keys'],
      ['POST', '/v1/keys'],
      ['GET', '/v1/events?tenant_id=acme'],
    ] as const) {
      const payload = method === 'POST' ? { payload: { label: 'x' } } : {}
      expect([url, (await scene.call({ method, url, headers, ...payload })).status]).toEqual([url, 403])
    }
  })
})

describe('every change on the dashboard', () => {
  it('is an event with its key and via: ui; with a key, via is null', async () => {
    const change = (method: string, path: string, body?: object) =>
      withCookie(cookies.admin, { method, path, headers: OWN, ...(body === undefined ? {} : { body }) })
    await scene.store.tenants.create({ tenant_id: 'watched' }, 'test')
    const at = '/v1/tenants/watched'
    await change('PATCH', `${at}/caps`, { tenant_daily: 0 })
    await change('PATCH', `${at}/policy`, { retention_days: 9 })
    await change('PUT', `${at}/templates/strict`, { sandbox: null })
    const { json: made } = await change('POST', `${at}/keys`, { label: 'ci' })
    await change('DELETE', `${at}/keys/${made.id}`)
    await change('POST', `${at}/callback-secret`, {})
    await change('DELETE', `${at}/callback-secret`)
    await change('POST', `${at}/cancel`, { state: 'all', reason: 'incident' })
    await change('DELETE', `${at}/workspaces/notes`)
    await scene.call({ method: 'PATCH', url: `${at}/caps`, payload: { tenant_daily: 5 } })
    const { events } = (await scene.call({ url: `${at}/policy/events` })).json
    const adminKey = (await withCookie(cookies.admin, { path: '/ui/session', headers: OWN })).json.key_id
    const told = events
      .toReversed()
      .map(({ event_type, actor, via }: Record<string, unknown>) => [
        event_type,
        actor === `key:${adminKey}` ? 'us' : actor,
        via,
      ])
    expect(told).toEqual([
      ['created', 'test', null],
      ...['caps', 'retention_days', 'template', 'key_created', 'key_revoked', 'callback_secret_rotated']
        .concat('callback_secret_deleted', 'tenant_cancelled', 'workspace_deleted')
        .map((type) => [type, 'us', 'ui']),
      ['caps', 'us', null],
    ])
  })

  it('has the cancelled execution and the reason; one that had ended leaves none', async () => {
    const { json } = await withCookie(cookies.acme, {
      method: 'POST',
      path: '/v1/executions',
      headers: OWN,
      body: execution('wait'),
    })
    const cancel = {
      method: 'POST',
      path: `/v1/executions/${json.execution_id}/cancel`,
      headers: OWN,
      body: { reason: 'by mistake' },
    }
    expect((await withCookie(cookies.acme, cancel)).json.status).toMatch(/cancelled|cancelling/)
    await scene.producer.wait(json.execution_id, { timeoutMs: 20_000 })
    expect((await withCookie(cookies.acme, cancel)).json.status).toBe('ended')
    const url = '/v1/tenants/acme/policy/events?event_type=execution_cancelled'
    const { events } = (await scene.call({ url })).json
    const cancels = events.filter(
      ({ event_type, after }: { event_type: string; after: { execution_id?: string } }) =>
        event_type === 'execution_cancelled' && after.execution_id === json.execution_id,
    )
    expect(cancels).toMatchObject([{ via: 'ui', after: { reason: 'by mistake' } }])
  })

  it('is done and logged when its event cannot be written', async () => {
    const lines: { msg: string; details?: { execution_id?: string } }[] = []
    const logger = createLogger({
      service: 'test',
      destination: { write: (line: string) => void lines.push(JSON.parse(line)) },
    })
    const tenants = { ...scene.store.tenants, recordAction: () => Promise.reject(new Error('away')) }
    const at = await listen(await scene.another({}, { store: { ...scene.store, tenants }, logger }))
    const headers = scene.acme
    const made = await ask(at, { method: 'POST', path: '/v1/executions', headers, body: execution('wait') })
    const path = `/v1/executions/${made.json.execution_id}/cancel`
    expect((await ask(at, { method: 'POST', path, headers, body: {} })).status).toBe(200)
    const said = lines.filter(({ msg }) => msg === 'what a caller did has no event')
    expect(said).toMatchObject([{ details: { execution_id: made.json.execution_id } }])
  })
})
