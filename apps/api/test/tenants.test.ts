import { tenantCapsSchema, tenantPolicySchema } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { HOUR_MS, untilWindowLasts } from '@cofferdam/embedded/testing'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const CAPS = {
  tenant_daily: 5,
  agent_hourly: 3,
  agents: { 'agent-1': 2 },
  concurrency: 2,
  max_queued: 1,
  weight: 2,
  rate_per_second: null,
  burst: 1,
  tenant_daily_cpu_seconds: 600,
  tenant_daily_cost: null,
}

describe('tenants', () => {
  it('are created with defaults, can be read, and are listed by pages', async () => {
    const made = await scene.call({
      method: 'POST',
      url: '/v1/tenants',
      payload: { tenant_id: 'initech', min_isolation: 'container', caps: { tenant_daily: 7 } },
    })
    expect(made).toMatchObject({
      status: 201,
      headers: { location: '/v1/tenants/initech' },
      json: {
        policy: { tenant_id: 'initech', sandbox_enabled: true, min_isolation: 'container' },
        caps: { tenant_daily: 7, agent_hourly: null },
      },
    })
    expect((await scene.call({ url: '/v1/tenants/initech' })).json).toEqual(made.json)
    const first = await scene.call({ url: '/v1/tenants?limit=2' })
    expect(first.json.tenants.map(idOf)).toEqual(['acme', 'globex'])
    const second = await scene.call({ url: `/v1/tenants?limit=2&cursor=${first.json.next_cursor}` })
    expect(second.json).toMatchObject({ next_cursor: null })
    expect(second.json.tenants.map(idOf)).toEqual(['initech'])
  })

  it('cannot be created twice', async () => {
    const again = await scene.call({ method: 'POST', url: '/v1/tenants', payload: { tenant_id: 'acme' } })
    expect(again).toMatchObject({ status: 409, json: { error: { code: 'conflict' } } })
  })

  it('can read their own settings and no other tenant’s', async () => {
    for (const part of ['', '/policy', '/caps', '/usage', '/templates']) {
      const own = await scene.call({ url: `/v1/tenants/acme${part}`, headers: scene.acme })
      expect([part, own.status]).toEqual([part, 200])
      const foreign = await scene.call({ url: `/v1/tenants/acme${part}`, headers: scene.globex })
      expect([part, foreign.status, foreign.json.error.code]).toEqual([part, 403, 'forbidden'])
    }
  })

  it('answer 404 when they do not exist', async () => {
    for (const part of ['', '/policy', '/caps', '/keys']) {
      expect((await scene.call({ url: `/v1/tenants/nobody${part}` })).status).toBe(404)
    }
    const caps = await scene.call({ method: 'PUT', url: '/v1/tenants/nobody/caps', payload: CAPS })
    expect(caps.status).toBe(404)
    const key = await scene.call({ method: 'POST', url: '/v1/tenants/nobody/keys', payload: { label: 'x' } })
    expect(key.status).toBe(404)
  })

  it.each([
    ['POST', '/v1/tenants', { tenant_id: 'other' }],
    ['GET', '/v1/tenants', undefined],
    ['PATCH', '/v1/tenants/acme/policy', { retention_days: 5 }],
    ['PUT', '/v1/tenants/acme/caps', CAPS],
    ['PUT', '/v1/tenants/acme/templates/t', { sandbox: null }],
    ['POST', '/v1/tenants/acme/keys', { label: 'x' }],
    ['GET', '/v1/tenants/acme/keys', undefined],
    ['DELETE', '/v1/tenants/acme/keys/x', undefined],
    ['GET', '/v1/queue', undefined],
  ] as const)('may not %s %s, which is for admins', async (method, url, payload) => {
    const reply = await scene.call({
      method,
      url,
      headers: scene.acme,
      ...(payload === undefined ? {} : { payload }),
    })
    expect(reply).toMatchObject({ status: 403, json: { error: { code: 'forbidden' } } })
  })
})

describe('the values to redact', () => {
  const values = ['correct-horse-battery', 'staple-of-the-donkey']
  const paths = ['/v1/tenants/initrode', '/v1/tenants/initrode/policy', '/v1/tenants/initrode/policy/events']
  let own: { authorization: string }
  beforeAll(async () => {
    await scene.store.tenants.create({ tenant_id: 'initrode', policy: { redact: values } }, 'test')
    const { key } = await scene.store.keys.create({ tenant_id: 'initrode' }, 'test')
    own = { authorization: `Bearer ${key}` }
  })
  const policyOf = (json: { policy?: object } & object) => json.policy ?? json

  it('are shown to admins only, and nothing else is left out', async () => {
    for (const url of paths.slice(0, 2)) {
      const full = policyOf((await scene.call({ url })).json)
      expect(full).toMatchObject({ redact: values })
      const shown = policyOf((await scene.call({ url, headers: own })).json)
      const { redact: _hidden, ...rest } = full as { redact: string[] }
      expect(shown).toEqual(rest)
    }
  })

  it('appear in no answer to a key of the tenant', async () => {
    for (const url of paths) {
      const { status, text } = await scene.call({ url, headers: own })
      expect([url, status]).toEqual([url, 200])
      for (const value of values) expect(text).not.toContain(value)
    }
  })

  it('survive when an admin writes back what a key of the tenant read', async () => {
    const url = '/v1/tenants/initrode/policy'
    const { json: read } = await scene.call({ url, headers: own })
    const put = await scene.call({ method: 'PUT', url, payload: { ...read, retention_days: 12 } })
    expect(put).toMatchObject({ status: 400, json: { error: { code: 'invalid_request' } } })
    const { tenant_id: _id, ...fields } = read
    const patch = await scene.call({ method: 'PATCH', url, payload: { ...fields, retention_days: 12 } })
    expect(patch).toMatchObject({ status: 200, json: { retention_days: 12, redact: values } })
  })
})

describe('the policy of a tenant', () => {
  it('can be patched and replaced, and the workers’ cached copy is deleted', async () => {
    await cachePolicy('acme')
    const patched = await scene.call({
      method: 'PATCH',
      url: '/v1/tenants/acme/policy',
      payload: { retention_days: 60 },
    })
    expect(tenantPolicySchema.parse(patched.json).retention_days).toBe(60)
    expect(await cachedKeys('acme')).toBe(0)
    const replaced = await scene.call({
      method: 'PUT',
      url: '/v1/tenants/acme/policy',
      payload: { ...patched.json, retention_days: 30 },
    })
    expect(replaced).toMatchObject({ status: 200, json: { retention_days: 30 } })
    expect((await scene.call({ url: '/v1/tenants/acme/policy' })).json).toEqual(replaced.json)
  })

  it('keeps the fields that a patch leaves out', async () => {
    const url = '/v1/tenants/acme/policy'
    const rules = {
      network: { allow: ['pypi.org'] },
      packages: { pypi: ['requests'], npm: [] },
      commands: { allow: null, block: ['rm'] },
      encrypt_outputs: true,
    }
    expect((await scene.call({ method: 'PATCH', url, payload: rules })).json).toMatchObject(rules)
    const later = await scene.call({ method: 'PATCH', url, payload: { retention_days: 29 } })
    expect(later.json).toMatchObject({ ...rules, retention_days: 29 })
    const back = { network: 'public', commands: { allow: null, block: [] }, encrypt_outputs: false }
    expect((await scene.call({ method: 'PATCH', url, payload: back })).json).toMatchObject(back)
    for (const pypi of [['requests=1'], ['not a name']]) {
      const refused = await scene.call({ method: 'PATCH', url, payload: { packages: { pypi, npm: [] } } })
      expect(refused).toMatchObject({
        status: 400,
        json: { error: { message: expect.stringContaining(`"${pypi[0]}"`) } },
      })
    }
    const wrong = { commands: { allow: [' '], block: [] } }
    expect((await scene.call({ method: 'PATCH', url, payload: wrong })).status).toBe(400)
  })

  it('records who changed it', async () => {
    await scene.call({ method: 'PATCH', url: '/v1/tenants/acme/policy', payload: { retention_days: 61 } })
    const [event] = await scene.store.tenants.events('acme')
    expect(event).toMatchObject({ event_type: 'retention_days', source: 'api' })
    expect(event?.actor).toMatch(/^key:[0-9a-f-]{36}$/)
  })

  it.each([
    ['an unknown field', { nonsense: 1 }],
    ['no field', {}],
    ['a retention above the maximum', { retention_days: 181 }],
    ['another tenant', { tenant_id: 'globex' }],
  ])('cannot be patched with %s', async (_what, payload) => {
    expect((await scene.call({ method: 'PATCH', url: '/v1/tenants/acme/policy', payload })).status).toBe(400)
  })

  it('cannot be replaced by the policy of another tenant', async () => {
    const { json } = await scene.call({ url: '/v1/tenants/globex/policy' })
    const reply = await scene.call({ method: 'PUT', url: '/v1/tenants/acme/policy', payload: json })
    expect(reply.status).toBe(400)
  })
})

describe('the caps of a tenant', () => {
  it('apply at once in admission and in the scheduler, and the cached policy is deleted', async () => {
    await cachePolicy('globex')
    const put = await scene.call({ method: 'PUT', url: '/v1/tenants/globex/caps', payload: CAPS })
    expect(tenantCapsSchema.parse(put.json)).toEqual(CAPS)
    expect(await scene.admission.getCaps('globex')).toEqual(CAPS)
    expect(await cachedKeys('globex')).toBe(0)
    expect((await scene.call({ url: '/v1/tenants/globex/caps' })).json).toEqual(CAPS)
    const patch = { method: 'PATCH' as const, url: '/v1/tenants/globex/caps' }
    const patched = await scene.call({ ...patch, payload: { tenant_daily: 11 } })
    expect([patched.status, patched.json]).toEqual([200, { ...CAPS, tenant_daily: 11 }])
    expect((await scene.call({ ...patch, payload: {} })).status).toBe(400)
    expect((await scene.call({ ...patch, payload: { daily: 1 } })).status).toBe(400)
    const back = await scene.call({ ...patch, payload: { tenant_daily: CAPS.tenant_daily } })
    expect(back.json).toEqual(CAPS)
    // max_queued is 1, so the second execution that has to wait is refused.
    const later = execution('x', { tenant_id: 'globex', delay_ms: 3_600_000 })
    const first = await scene.call({ method: 'POST', url: '/v1/executions', payload: later })
    expect(first.status).toBe(202)
    const full = await scene.call({ method: 'POST', url: '/v1/executions', payload: later })
    expect(full).toMatchObject({
      status: 429,
      // The waiting execution is delayed by an hour, so the forecast reaches its maximum of one minute.
      headers: { 'retry-after': '60' },
      json: { error: { code: 'queue_full', retry: 'later' } },
    })
    await scene.call({ method: 'POST', url: `/v1/executions/${first.json.execution_id}/cancel` })
  })

  it('are the same in Postgres and Redis after many concurrent changes', async () => {
    await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        scene.call({
          method: 'PUT',
          url: '/v1/tenants/globex/caps',
          payload: { ...CAPS, tenant_daily: i, weight: i + 1 },
        }),
      ),
    )
    const stored = (await scene.store.tenants.get('globex'))!.caps
    expect(await scene.admission.getCaps('globex')).toEqual(stored)
    const limits = await scene.redis.hget('{cofferdam}:limits', 'globex')
    expect(limits).toBe(`${stored.weight}|${stored.concurrency}|${stored.max_queued}`)
  })

  it('are shown with their current use', async () => {
    await untilWindowLasts(HOUR_MS, 10_000)
    const key = { tenantId: 'acme', agentId: 'agent-9', executionId: 'exe_1', attempt: 1 } as const
    const admitted = await scene.admission.admit(key)
    expect(admitted.admitted).toBe(true)
    const usage = await scene.call({ url: '/v1/tenants/acme/usage?agent_id=agent-9', headers: scene.acme })
    expect(usage.json).toMatchObject({
      tenant_daily: { used: 1, limit: 1000 },
      agent_hourly: { used: 1, limit: 100 },
      concurrency: { running: 1 },
    })
    const whole = await scene.call({ url: '/v1/tenants/acme/usage' })
    expect(whole.json.agent_hourly).toBeNull()
  })

  it.each([
    ['a negative cap', { ...CAPS, tenant_daily: -1 }],
    ['a fraction', { ...CAPS, agent_hourly: 1.5 }],
    ['a missing field', { tenant_daily: 1 }],
    ['a bad agent name', { ...CAPS, agents: { 'a b': 1 } }],
  ])('are refused with %s, and the previous ones stay', async (_what, payload) => {
    const before = (await scene.call({ url: '/v1/tenants/acme/caps' })).json
    expect((await scene.call({ method: 'PUT', url: '/v1/tenants/acme/caps', payload })).status).toBe(400)
    expect((await scene.call({ url: '/v1/tenants/acme/caps' })).json).toEqual(before)
  })
})

describe('templates', () => {
  it('are put, read and listed, and a change deletes the workers’ cached policy', async () => {
    await cachePolicy('acme')
    const url = '/v1/tenants/acme/templates/analyst'
    expect((await scene.call({ url })).status).toBe(404)
    const put = await scene.call({
      method: 'PUT',
      url,
      payload: { sandbox: { environment: 'internal-only' } },
    })
    expect(put.json).toEqual({
      tenant_id: 'acme',
      template_id: 'analyst',
      sandbox: { environment: 'internal-only' },
    })
    expect(await cachedKeys('acme')).toBe(0)
    expect((await scene.call({ url, headers: scene.acme })).json).toEqual(put.json)
    expect((await scene.call({ url: '/v1/tenants/acme/templates' })).json).toEqual({ templates: [put.json] })
  })

  it.each([
    [{ sandbox: { environment: 'moon' } }],
    [{ sandbox: { environment: 'internal-only', extra: 1 } }],
    [{}],
  ])('are refused with the body %j', async (payload) => {
    const url = '/v1/tenants/acme/templates/bad'
    expect((await scene.call({ method: 'PUT', url, payload })).status).toBe(400)
  })

  it('answer 404 for an unknown tenant', async () => {
    const url = '/v1/tenants/nobody/templates/t'
    expect((await scene.call({ method: 'PUT', url, payload: { sandbox: null } })).status).toBe(404)
  })
})

describe('the API keys of a tenant', () => {
  it('are shown once, work for their tenant, and stop working at once when revoked', async () => {
    const made = await scene.call({ method: 'POST', url: '/v1/tenants/acme/keys', payload: { label: 'ci' } })
    expect(made.status).toBe(201)
    expect(made.json.key).toMatch(/^cfd_[0-9a-f]{40}$/)
    const headers = { authorization: `Bearer ${made.json.key}` }
    expect((await scene.call({ url: '/v1/tenants/acme/policy', headers })).status).toBe(200)
    const listed = await scene.call({ url: '/v1/tenants/acme/keys' })
    expect(listed.text).not.toContain(made.json.key)
    expect(listed.json.keys).toContainEqual(expect.objectContaining({ id: made.json.id, label: 'ci' }))

    const url = `/v1/tenants/acme/keys/${made.json.id}`
    expect((await scene.call({ method: 'DELETE', url: url.replace('acme', 'globex') })).status).toBe(404)
    expect((await scene.call({ method: 'DELETE', url })).status).toBe(204)
    expect((await scene.call({ url: '/v1/tenants/acme/policy', headers })).status).toBe(401)
    expect((await scene.call({ method: 'DELETE', url })).status).toBe(204)
  })

  it('can be bound to a template, which then applies to their executions and allows no other', async () => {
    for (const id of ['strict', 'lax'])
      await scene.call({
        method: 'PUT',
        url: `/v1/tenants/acme/templates/${id}`,
        payload: { sandbox: { environment: 'internal-only' } },
      })
    const url = '/v1/tenants/acme/keys'
    const made = await scene.call({ method: 'POST', url, payload: { label: 'bound', template_id: 'strict' } })
    expect(made.status).toBe(201)
    const headers = { authorization: `Bearer ${made.json.key}` }
    const { json } = await scene.call({ url })
    expect(json.keys).toContainEqual(expect.objectContaining({ id: made.json.id, template_id: 'strict' }))

    const enqueue = (extra: object) =>
      scene.call({
        method: 'POST',
        url: '/v1/executions',
        payload: execution('x', { delay_ms: 3_600_000, ...extra }),
        headers,
      })
    const accepted = await enqueue({})
    expect(await scene.producer.request(accepted.json.execution_id)).toMatchObject({ template_id: 'strict' })
    expect((await enqueue({ template_id: 'strict' })).status).toBe(202)
    const other = await enqueue({ template_id: 'lax' })
    expect([other.status, other.json.error.message]).toEqual([403, expect.stringContaining('strict')])
    // A key that is bound to a template also binds the requests of its routines.
    const payload = { name: 'bound', request: execution('x'), enabled: false }
    const routine = await scene.call({ method: 'POST', url: '/v1/routines', payload, headers })
    expect(routine.json.request.template_id).toBe('strict')
    const lax = { request: execution('x', { template_id: 'lax' }) }
    const changed = await scene.call({
      method: 'PATCH',
      url: `/v1/routines/${routine.json.routine_id}`,
      payload: lax,
      headers,
    })
    expect(changed.status).toBe(403)
    // This key may not run, change or delete a routine that another key made, because its request does not
    // use the template.
    const free = await scene.call({ method: 'POST', url: '/v1/routines', payload, headers: scene.acme })
    const at = `/v1/routines/${free.json.routine_id}`
    for (const call of [
      { method: 'POST', url: `${at}/run`, payload: {} },
      { method: 'PATCH', url: at, payload: { name: 'mine' } },
      { method: 'DELETE', url: at },
    ] as const)
      expect((await scene.call({ ...call, headers })).status, `${call.method} ${call.url}`).toBe(403)
    expect((await scene.call({ url: at, headers })).json).toMatchObject({ name: 'bound' })
    for (const one of await scene.producer.live('acme', 10)) await scene.producer.cancel(one.execution_id)
    const unknown = await scene.call({ method: 'POST', url, payload: { label: 'x', template_id: 'none' } })
    expect([unknown.status, unknown.json.error.code]).toEqual([404, 'not_found'])
  })

  it.each([[{ label: '' }], [{ label: 'a\nb' }], [{ label: 'x'.repeat(201) }], [{}]])(
    'are refused with the label in %j',
    async (payload) => {
      expect((await scene.call({ method: 'POST', url: '/v1/tenants/acme/keys', payload })).status).toBe(400)
    },
  )
})

const idOf = (tenant: { policy: { tenant_id: string } }): string => tenant.policy.tenant_id

/** Writes what the worker's policy cache leaves in Redis. */
async function cachePolicy(tenant: string): Promise<void> {
  await scene.redis.hset(`cfd:{${tenant}}:policy`, '', '{}')
}

const cachedKeys = (tenant: string): Promise<number> => scene.redis.exists(`cfd:{${tenant}}:policy`)
