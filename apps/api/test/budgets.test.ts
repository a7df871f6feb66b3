/** Budgets of a tenant: caps of CPU and cost, the RateLimit headers, usage, cancelling, and policy events. */
import { DEFAULT_TENANT_CAPS } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sampleCharged } from './sample-charged.ts'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const put = (tenant: string, caps: object) =>
  scene.call({ method: 'PUT', url: `/v1/tenants/${tenant}/caps`, payload: caps })
const enqueue = (source: string, extra: object = {}, query = '') =>
  scene.call({ method: 'POST', url: `/v1/executions${query}`, payload: execution(source, extra) })

describe('caps of CPU and cost', () => {
  it('are null when a PUT leaves them out, and can be set when a tenant is created', async () => {
    const { tenant_daily_cpu_seconds: _cpu, tenant_daily_cost: _cost, ...older } = DEFAULT_TENANT_CAPS
    expect((await put('globex', older)).json).toEqual(DEFAULT_TENANT_CAPS)
    const made = await scene.call({
      method: 'POST',
      url: '/v1/tenants',
      payload: { tenant_id: 'metered', caps: { tenant_daily_cost: 2_500_000 } },
    })
    expect(made.json.caps).toEqual({ ...DEFAULT_TENANT_CAPS, tenant_daily_cost: 2_500_000 })
    expect((await scene.call({ url: '/v1/tenants/metered/usage' })).json).toMatchObject({
      tenant_daily_cpu: null,
      tenant_daily_cost: { used: 0, reserved: 0, limit: 2_500_000 },
    })
  })
})

describe('RateLimit headers', () => {
  it('show what is left in a 202, with a result, and in a 429 next to Retry-After', async () => {
    await put('globex', {
      ...DEFAULT_TENANT_CAPS,
      tenant_daily: 50,
      tenant_daily_cpu_seconds: 90,
      max_queued: 1,
    })
    const later = { tenant_id: 'globex', delay_ms: 3_600_000 }
    const accepted = await enqueue('x', later)
    expect(accepted.status).toBe(202)
    const policy =
      '"tenant-daily";q=50;w=86400, "agent-hourly";q=100;w=3600, "tenant-daily-cpu";q=90;qu="cpu-seconds";w=86400'
    expect(accepted.headers['ratelimit-policy']).toBe(policy)
    expect(accepted.headers['ratelimit']).toMatch(
      /^"tenant-daily";r=50;t=\d{1,5}, "agent-hourly";r=100;t=\d{1,4}, "tenant-daily-cpu";r=90;t=\d{1,5}$/,
    )
    const full = await enqueue('x', later)
    expect(full.status).toBe(429)
    expect(full.headers).toMatchObject({ 'retry-after': '60', 'ratelimit-policy': policy })
    await scene.call({ method: 'POST', url: `/v1/executions/${accepted.json.execution_id}/cancel` })
    const got = await scene.call({ url: `/v1/executions/${accepted.json.execution_id}` })
    expect(got.json.result.ending).toBe('cancelled')
    expect(got.headers['ratelimit-policy']).toBe(policy)
  })

  it('are sent when the caller waited for the result', async () => {
    const { status, headers } = await enqueue('x', {}, '?wait=20s')
    expect(status).toBe(200)
    expect(headers['ratelimit']).toMatch(/^"tenant-daily";r=\d+;t=\d+, "agent-hourly";r=\d+;t=\d+$/)
  })
})

describe('usage of a range', () => {
  it('is summed by agent or by day, and a tenant may read it with its own key', async () => {
    const now = Date.now()
    await Promise.all([
      scene.store.record(sampleCharged('acme', 'a', now - 1000, 700)),
      scene.store.record(sampleCharged('acme', 'b', now - 2000, 300)),
      scene.store.record(sampleCharged('globex', 'a', now - 2000, 9000)),
    ])
    const reply = await scene.call({ url: '/v1/tenants/acme/usage?group_by=agent', headers: scene.acme })
    expect(reply.json).toMatchObject({
      tenant_id: 'acme',
      group_by: 'agent',
      total: { calls: 2, cost: 1000 },
      truncated: false,
    })
    expect(reply.json.groups.map((group: { key: string; cost: number }) => [group.key, group.cost])).toEqual([
      ['a', 700],
      ['b', 300],
    ])
    const from = new Date(now - 1500).toISOString()
    const late = await scene.call({ url: `/v1/tenants/acme/usage?from=${from}` })
    expect(late.json).toMatchObject({ from, group_by: 'day', total: { cost: 700 } })
  })

  it.each(['from=2020-01-01T00:00:00Z', 'group_by=hour', 'to=yesterday', 'group_by=day&agent_id=a'])(
    'answers 400 for the query %s',
    async (query) => {
      expect((await scene.call({ url: `/v1/tenants/acme/usage?${query}` })).status).toBe(400)
    },
  )

  it('is refused to a key of another tenant', async () => {
    const reply = await scene.call({ url: '/v1/tenants/globex/usage?group_by=day', headers: scene.acme })
    expect(reply.status).toBe(403)
  })
})

describe('POST /v1/tenants/{id}/cancel', () => {
  it('ends waiting executions and stops running ones, filtered by state and agent', async () => {
    await put('globex', DEFAULT_TENANT_CAPS)
    const of = (agent: string) => ({ tenant_id: 'globex', agent_id: agent })
    const [running] = await Promise.all([enqueue('wait', of('a')), enqueue('wait', of('b'))])
    // Reads the statuses, because the queue's count of running executions includes one that its worker has
    // not begun.
    const statuses = async () => (await scene.producer.live('globex', 10)).map(({ status }) => status)
    await expect.poll(statuses, { timeout: 20_000 }).toEqual(['running', 'running'])
    await Promise.all([1, 2, 3].map(() => enqueue('x', { ...of('a'), delay_ms: 3_600_000 })))
    const url = '/v1/tenants/globex/cancel'
    const cancel = (payload: object) => scene.call({ method: 'POST', url, payload })
    expect((await cancel({ state: 'waiting', agent_id: 'a' })).json).toEqual({
      cancelled: 3,
      cancelling: 0,
      next_cursor: null,
    })
    const stopped = await cancel({ state: 'running', agent_id: 'a', reason: 'budget is gone' })
    expect(stopped.json).toMatchObject({ cancelled: 0, cancelling: 1 })
    const result = await scene.producer.wait(running.json.execution_id, { timeoutMs: 30_000 })
    expect(result?.ending).toBe('cancelled')
    expect((await cancel({ state: 'all' })).json).toMatchObject({ cancelled: 0, cancelling: 1 })
  })

  it('is refused to tenant keys, and answers 400 for a missing state or a malformed cursor', async () => {
    const url = '/v1/tenants/acme/cancel'
    const call = (payload: object, headers = scene.admin) =>
      scene.call({ method: 'POST', url, payload, headers })
    expect((await call({ state: 'all' }, scene.acme)).status).toBe(403)
    expect((await call({})).status).toBe(400)
    expect((await call({ state: 'all', cursor: 'x' })).status).toBe(400)
  })
})

describe('policy events', () => {
  it('are listed newest first by pages, and include changes of templates and caps', async () => {
    await scene.call({ method: 'POST', url: '/v1/tenants', payload: { tenant_id: 'told' } })
    await put('told', { ...DEFAULT_TENANT_CAPS, tenant_daily_cost: 5 })
    await scene.call({
      method: 'PUT',
      url: '/v1/tenants/told/templates/t1',
      payload: { sandbox: { environment: 'internal-only' } },
    })
    const first = await scene.call({ url: '/v1/tenants/told/policy/events?limit=2' })
    expect(first.json.events).toMatchObject([
      { event_type: 'template', before: null, after: { template_id: 't1', environment: 'internal-only' } },
      {
        event_type: 'caps',
        before: { tenant_daily_cost: null },
        after: { tenant_daily_cost: 5 },
        source: 'api',
      },
    ])
    expect(first.json.events[0].actor).toMatch(/^key:/)
    const rest = await scene.call({
      url: `/v1/tenants/told/policy/events?limit=2&cursor=${first.json.next_cursor}`,
    })
    expect(rest.json).toMatchObject({ events: [{ event_type: 'created' }], next_cursor: null })
    expect((await scene.call({ url: '/v1/tenants/told/policy/events', headers: scene.acme })).status).toBe(
      403,
    )
  })
})
