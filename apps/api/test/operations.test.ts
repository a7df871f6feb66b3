import { resultSchema } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { expectErrorShape, openScene, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene?.[Symbol.asyncDispose]())

describe('health', () => {
  it('is reported without a key', async () => {
    expect((await scene.app.inject({ url: '/healthz' })).json()).toEqual({ status: 'ok' })
    const ready = { status: 'ready', checks: { redis: 'ok', postgres: 'ok' } }
    // A probe that takes more than a second counts as failed, and on a busy machine one may.
    await vi.waitFor(
      async () => expect((await scene.app.inject({ url: '/readyz' })).json()).toEqual(ready),
      20_000,
    )
  })
})

describe('metrics', () => {
  it('are served without a key to callers on this machine', async () => {
    for (const host of ['localhost:7070', '127.0.0.1', '[::1]:7070']) {
      const reply = await scene.app.inject({ url: '/metrics', headers: { host } })
      expect(reply).toMatchObject({ statusCode: 200, body: 'up 1\n' })
      expect(reply.headers['content-type']).toMatch(/^text\/plain/)
    }
  })

  it.each<[string, Record<string, string>, string]>([
    ['from a caller behind a proxy', { host: 'localhost', 'x-forwarded-for': '10.0.0.1' }, '127.0.0.1'],
    ['from a page that rebinds its DNS name', { host: 'evil.example:7070' }, '127.0.0.1'],
    ['from a caller on another machine', { host: 'localhost' }, '10.0.0.9'],
  ])('need an admin key when the request comes %s', async (_what, headers, remoteAddress) => {
    const ask = (extra: object) =>
      scene.app.inject({ url: '/metrics', remoteAddress, headers: { ...headers, ...extra } })
    const none = await ask({})
    expect(none.statusCode).toBe(401)
    expectErrorShape(none.statusCode, none.json(), none.headers)
    expect((await ask(scene.acme)).statusCode).toBe(403)
    expect((await ask(scene.admin)).statusCode).toBe(200)
  })
})

describe('GET /v1/queue', () => {
  it('shows lanes and workers to admins', async () => {
    // The lanes and workers appear with the worker's first heartbeat.
    await vi.waitFor(
      async () =>
        expect((await scene.call({ url: '/v1/queue' })).json).toMatchObject({
          lanes: { interactive: { queued: 0 }, routine: { queued: 0 } },
          workers: [{ slots: 4 }],
          outbox: 0,
        }),
      20_000,
    )
  })
})

describe('backends', () => {
  const report = (name: string, ok: boolean) => ({
    name,
    isolation: 'container',
    probe: ok ? { ok, features: ['seccomp'] } : { ok, why: 'no daemon', fix: 'start it' },
    capabilities: { languages: ['python'] },
  })

  it('are listed as live workers report them, without stale or malformed reports', async () => {
    const write = (worker: string, value: unknown) =>
      scene.redis.hset('{cofferdam}:backends', worker, JSON.stringify(value))
    await write('wrk_1', { at_ms: Date.now(), backends: [report('docker', false), report('bwrap', true)] })
    await write('wrk_2', { at_ms: Date.now(), backends: [report('docker', true)] })
    await write('wrk_old', { at_ms: Date.now() - 61_000, backends: [report('ghost', true)] })
    await write('wrk_bad', { at_ms: Date.now(), backends: [{ name: 'half' }] })
    await scene.redis.hset('{cofferdam}:backends', 'wrk_worse', 'not json')
    const { json } = await scene.call({ url: '/v1/backends' })
    expect(json.backends).toEqual([
      {
        name: 'bwrap',
        isolation: 'container',
        available: true,
        workers: [expect.objectContaining({ worker: 'wrk_1' })],
      },
      {
        name: 'docker',
        isolation: 'container',
        available: true,
        workers: [
          { worker: 'wrk_1', report: report('docker', false) },
          { worker: 'wrk_2', report: report('docker', true) },
        ],
      },
    ])
  })

  it('show a key of a tenant their state, but no reason of a probe and no figure of the fleet', async () => {
    const secret = 'connect ECONNREFUSED 10.1.2.3:2375 /run/secret.sock'
    const probe = { ok: false, why: `its probe failed: ${secret}`, fix: `ssh ops@10.1.2.3`, stack: secret }
    const bad = { ...report('docker', false), probe }
    const pool = { idle: 2, taken_warm: 7, taken_cold: 1, warm_failed: 0 }
    const backends = [
      { ...bad, circuit: 'open', pool },
      { ...report('bwrap', true), circuit: 'closed', pool: null },
    ]
    await scene.redis.del('{cofferdam}:backends')
    const text = JSON.stringify({ at_ms: Date.now(), backends })
    await scene.redis.hset('{cofferdam}:backends', 'wrk_1', text)
    const full = await scene.call({ url: '/v1/backends' })
    expect(full.json.backends[1].workers).toEqual([{ worker: 'wrk_1', report: backends[0] }])
    expect(full.json.backends[0].workers).toEqual([{ worker: 'wrk_1', report: backends[1] }])

    const shown = await scene.call({ url: '/v1/backends', headers: scene.acme })
    expect(shown.text).not.toMatch(/10\.1\.2\.3|ECONNREFUSED|secret\.sock/)
    const hidden = { ok: false, why: expect.stringContaining('admin key'), fix: expect.any(String) }
    expect(shown.json.backends).toEqual([
      { ...full.json.backends[0], workers: [{ worker: 'wrk_1', report: report('bwrap', true) }] },
      { ...full.json.backends[1], workers: [{ worker: 'wrk_1', report: { ...bad, probe: hidden } }] },
    ])
  })

  it('are tested by a small execution of the caller’s tenant', async () => {
    const reply = await scene.call({ method: 'POST', url: '/v1/backends/fake/test', headers: scene.acme })
    expect(reply.status).toBe(200)
    const result = resultSchema.parse(reply.json)
    expect(result).toMatchObject({ ok: true, stdout: 'print(1+1)\n' })
    const state = await scene.producer.get(result.execution_id)
    expect(state).toMatchObject({ tenant_id: 'acme', agent_id: 'cofferdam-backend-test' })
    expect(result.backend).toBe('fake')
    const foreign = await scene.call({
      method: 'POST',
      url: '/v1/backends/fake/test',
      headers: scene.globex,
      payload: { tenant_id: 'acme' },
    })
    expect(foreign.status).toBe(403)
  })
})

describe('the API without Redis', () => {
  it('answers 503, says whether a change was stored, and still reads from Postgres', async () => {
    const own = await openScene()
    try {
      await own.stopRedis()
      const error = { code: 'queue_unavailable', details: { checks: { redis: 'away', postgres: 'ok' } } }
      await vi.waitFor(
        async () =>
          expect(await own.call({ url: '/readyz' })).toMatchObject({ status: 503, json: { error } }),
        20_000,
      )
      const caps = (await own.call({ url: '/v1/tenants/acme/caps' })).json
      const put = await own.call({
        method: 'PUT',
        url: '/v1/tenants/acme/caps',
        payload: { ...caps, tenant_daily: 3 },
      })
      expect(put).toMatchObject({
        status: 503,
        headers: { 'retry-after': '1' },
        json: {
          error: { code: 'queue_unavailable', retry: 'later', details: { stored: true, live: false } },
        },
      })
      expect((await own.call({ url: '/v1/tenants/acme/caps' })).json.tenant_daily).toBe(3)
      const made = await own.call({ method: 'POST', url: '/v1/tenants', payload: { tenant_id: 'late' } })
      expect(made).toMatchObject({ status: 503, json: { error: { details: { stored: true } } } })
      expect(made.json.error.message).toContain('PUT /v1/tenants/late/caps')
      const post = await own.call({
        method: 'POST',
        url: '/v1/executions',
        payload: { tenant_id: 'acme', agent_id: 'a', program: { type: 'install' } },
      })
      expect(post).toMatchObject({ status: 503, json: { error: { code: 'queue_unavailable' } } })
      expect((await own.call({ url: '/v1/backends' })).json.error.code).toBe('queue_unavailable')
      expect((await own.call({ url: '/v1/audit/invocations' })).status).toBe(200)
    } finally {
      await own[Symbol.asyncDispose]()
    }
  })
})
