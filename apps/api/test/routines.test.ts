import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene[Symbol.asyncDispose]())

const nightly = (extra: object = {}, source = 'print(1)') => ({
  name: 'nightly report',
  request: execution(source),
  schedule: { cron: '30 2 * * *', time_zone: 'Europe/Berlin' },
  ...extra,
})
const create = async (payload: object, headers = scene.acme) =>
  scene.call({ method: 'POST', url: '/v1/routines', payload, headers })

describe('routines over HTTP', () => {
  it('can be created, read, changed, listed and deleted, and each change has an event', async () => {
    const made = await create(nightly())
    expect(made.status).toBe(201)
    expect(made.headers['location']).toBe(`/v1/routines/${made.json.routine_id}`)
    expect(made.json).toMatchObject({
      tenant_id: 'acme',
      agent_id: 'agent-1',
      enabled: true,
      concurrency: 'forbid',
      schedule: { cron: '30 2 * * *', time_zone: 'Europe/Berlin' },
      request: execution('print(1)'),
      last_run: null,
    })
    expect(Date.parse(made.json.next_run_at)).toBeGreaterThan(Date.now())
    const url = `/v1/routines/${made.json.routine_id}`
    expect(await scene.redis.zscore('{cofferdam}:routine-ticks:repeat', made.json.routine_id)).not.toBeNull()

    const off = await scene.call({ method: 'PATCH', url, payload: { enabled: false }, headers: scene.acme })
    expect(off.json).toMatchObject({ enabled: false, next_run_at: null, name: 'nightly report' })
    expect(await scene.redis.zscore('{cofferdam}:routine-ticks:repeat', made.json.routine_id)).toBeNull()

    const listed = await scene.call({ method: 'GET', url: '/v1/routines', headers: scene.acme })
    expect(listed.json.routines.map((one: { routine_id: string }) => one.routine_id)).toContain(
      made.json.routine_id,
    )

    expect((await scene.call({ method: 'DELETE', url, headers: scene.acme })).status).toBe(204)
    expect((await scene.call({ method: 'GET', url, headers: scene.acme })).status).toBe(404)

    const events = await scene.call({ method: 'GET', url: `${url}/events`, headers: scene.acme })
    expect(events.json.events).toMatchObject([
      { event_type: 'deleted', source: 'api', actor: expect.stringMatching(/^key:/), after: null },
      { event_type: 'changed', before: { enabled: true }, after: { enabled: false } },
      { event_type: 'created', before: null },
    ])
    const others = await scene.call({ method: 'GET', url: `${url}/events`, headers: scene.globex })
    expect(others.status).toBe(404)
  })

  it('cannot be seen, changed or run by another tenant, nor created for another tenant', async () => {
    const { json } = await create(nightly())
    const url = `/v1/routines/${json.routine_id}`
    const headers = scene.globex
    expect((await scene.call({ method: 'GET', url, headers })).status).toBe(404)
    expect((await scene.call({ method: 'PATCH', url, payload: { enabled: false }, headers })).status).toBe(
      404,
    )
    expect((await scene.call({ method: 'DELETE', url, headers })).status).toBe(404)
    expect((await scene.call({ method: 'POST', url: `${url}/run`, headers })).status).toBe(404)
    expect((await scene.call({ method: 'GET', url: `${url}/runs`, headers })).status).toBe(404)
    expect((await scene.call({ method: 'GET', url: '/v1/routines', headers })).json.routines).toEqual([])
    expect((await create(nightly(), headers)).status).toBe(403)
    const moved = { request: { ...execution('1'), tenant_id: 'globex' } }
    expect((await scene.call({ method: 'PATCH', url, payload: moved })).status).toBe(400)
  })

  it('run on demand at once, once per key, and each run is recorded', async () => {
    const { json } = await create(nightly({ enabled: false }))
    const url = `/v1/routines/${json.routine_id}/run`
    const first = await scene.call({ method: 'POST', url, payload: { key: 'a' }, headers: scene.acme })
    expect(first.json).toMatchObject({ outcome: 'enqueued', scheduled_at: null })
    const again = await scene.call({ method: 'POST', url, payload: { key: 'a' }, headers: scene.acme })
    expect(again.json).toEqual(first.json)
    await scene.producer.wait(first.json.execution_id, { timeoutMs: 30_000 })
    const other = await scene.call({ method: 'POST', url, headers: scene.acme })
    expect(other.json.execution_id).not.toBe(first.json.execution_id)
    const runs = await scene.call({ method: 'GET', url: `${url}s`, headers: scene.acme })
    expect(runs.json.runs).toHaveLength(2)
    const { audit } = (await scene.store.findExecution('acme', first.json.execution_id))!
    expect(audit[0]?.invocation_source).toBe('queue')
  })

  it.each([
    [{ schedule: { cron: '61 * * * *' } }, /schedule\.cron/],
    [{ schedule: { cron: '* * * * *', time_zone: 'Mars/Olympus' } }, /time zone/],
    [{ schedule: { every_ms: 10 } }, /every_ms/],
    [{ request: { ...execution('1'), idempotency_key: 'x' } }, /idempotency_key/],
    [{ request: { ...execution('1'), lane: 'interactive' } }, /lane/],
    [{ request: { tenant_id: 'acme' } }, /agent_id/],
    [{ request: execution('1', { limits: { hard_timeout_ms: 90_000_000 } }) }, /hard_timeout_ms/],
    [{ callback_url: 'ftp://example.com/' }, /http/],
    [{ callback_url: 'http://example.com:25/' }, /1024/],
    [{ callback_url: 'https://user:pass@example.com/' }, /without user/],
    [{ callback_url: 'https://example.com/' }, /no secret to sign callbacks/],
  ])('are refused with 400 when created with %o', async (extra, words) => {
    const answer = await create(nightly(extra))
    expect(answer.status).toBe(400)
    expect(answer.text).toMatch(words)
  })

  it('may have limits of hours, which an interactive execution may not', async () => {
    const limits = { hard_timeout_ms: 6 * 3_600_000 }
    expect((await create(nightly({ request: execution('1', { limits }) }))).status).toBe(201)
    const refused = await scene.call({
      method: 'POST',
      url: '/v1/executions',
      payload: execution('1', { limits }),
      headers: scene.acme,
    })
    expect(refused.status).toBe(400)
    expect(refused.text).toMatch(/lane \\"routine\\"/)
  })
})

describe('a routine while Redis is away', () => {
  it('is stored and answered within 30 s, so that workers can schedule it later', async () => {
    await using away = await openScene()
    await away.stopRedis()
    const startedMs = Date.now()
    const made = await away.call({ method: 'POST', url: '/v1/routines', payload: nightly() })
    expect(made.status).toBe(201)
    expect(Date.now() - startedMs).toBeLessThan(30_000)
    expect((await away.store.routines.scheduled(null)).map((one) => one.routine_id)).toEqual([
      made.json.routine_id,
    ])
  })
})

describe('the callback secret of a tenant', () => {
  it('is shown once, can be rotated by its tenant, and is hidden from other tenants', async () => {
    const url = '/v1/tenants/globex/callback-secret'
    const headers = scene.globex
    expect((await scene.call({ method: 'GET', url, headers })).status).toBe(404)
    const made = await scene.call({ method: 'POST', url, headers })
    expect(made.status).toBe(201)
    expect(made.json.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    const shown = await scene.call({ method: 'GET', url, headers })
    expect(shown.json).toEqual({ rotated_at: made.json.rotated_at })
    expect((await scene.call({ method: 'POST', url, headers: scene.acme })).status).toBe(403)
    const again = await scene.call({ method: 'POST', url, headers })
    const key = (text: string) => Buffer.from(text.slice(6), 'base64')
    const keys = await scene.store.callbackSecrets.read('globex', Date.now())
    expect(keys).toEqual([key(again.json.secret), key(made.json.secret)])
    expect(await scene.store.callbackSecrets.read('globex', Date.now() + 25 * 3_600_000)).toHaveLength(1)
    expect((await scene.call({ method: 'DELETE', url, headers })).status).toBe(204)
    expect(await scene.store.callbackSecrets.read('globex', Date.now())).toEqual([])
  })
})
