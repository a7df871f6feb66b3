import {
  acceptedSchema,
  executionRequestSchema,
  executionStateSchema,
  newExecutionId,
  resultSchema,
  type ExecutionId,
} from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const post = (body: object, extra: { headers?: Record<string, string>; wait?: string } = {}) =>
  scene.call({
    method: 'POST',
    url: `/v1/executions${extra.wait === undefined ? '' : `?wait=${extra.wait}`}`,
    headers: { ...extra.headers },
    payload: body,
  })

const ended = async (source: string, extra: object = {}) => {
  const reply = await post(execution(source, extra), { wait: '30s' })
  expect(reply.status).toBe(200)
  return resultSchema.parse(reply.json)
}

describe('POST /v1/executions', () => {
  it('answers 202 with a Location that leads to the result', async () => {
    const reply = await post(execution('hello'))
    expect(reply.status).toBe(202)
    const accepted = acceptedSchema.parse(reply.json)
    expect(reply.headers['location']).toBe(`/v1/executions/${accepted.execution_id}`)
    await vi.waitFor(
      async () => {
        const state = await scene.call({ url: String(reply.headers['location']) })
        expect(executionStateSchema.parse(state.json)).toMatchObject({
          status: 'ended',
          result: { ok: true, stdout: 'hello\n' },
        })
      },
      { timeout: 20_000 },
    )
  })

  it('answers 200 with the result when the execution ends within the wait', async () => {
    expect(await ended('hello')).toMatchObject({ ok: true, stdout: 'hello\n', exit_status: 'ok' })
  })

  it('answers 200 when the program fails', async () => {
    expect(await ended('fail')).toMatchObject({ ok: false, exit_code: 3, error: 'SandboxError' })
  })

  it('answers 202 when the wait ends first, and the execution continues', async () => {
    const reply = await post(execution('wait'), { wait: '50ms' })
    expect(reply.status).toBe(202)
    await scene.call({ method: 'POST', url: `/v1/executions/${reply.json.execution_id}/cancel` })
  })

  it('accepts the tenant’s own key', async () => {
    const reply = await post(execution('x'), { headers: scene.acme })
    expect(reply.status).toBe(202)
  })

  it('refuses a body that names another tenant than the key', async () => {
    const reply = await post(execution('x'), { headers: scene.globex })
    expect(reply).toMatchObject({ status: 403, json: { error: { code: 'forbidden' } } })
  })

  it('continues the trace of the caller’s traceparent header', async () => {
    const traceparent = `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`
    const reply = await post(execution('x'), { headers: { traceparent }, wait: '30s' })
    expect(reply.headers['x-trace-id']).toBe('ab'.repeat(16))
    expect(reply.json.trace_id).toBe('ab'.repeat(16))
  })

  it('prefers the traceparent of the body and ignores a malformed header', async () => {
    const body = execution('x', { traceparent: `00-${'12'.repeat(16)}-${'cd'.repeat(8)}-01` })
    expect((await post(body, { headers: { traceparent: 'nonsense' } })).headers['x-trace-id']).toBe(
      '12'.repeat(16),
    )
    expect((await post(execution('x'), { headers: { traceparent: 'nonsense' } })).status).toBe(202)
  })
})

describe('idempotency', () => {
  it('returns the first execution when a key is repeated, and 409 for another body', async () => {
    const key = 'once-1'
    const first = await post(execution('x', { idempotency_key: key }), { wait: '30s' })
    const again = await post(execution('x'), { headers: { 'idempotency-key': key }, wait: '30s' })
    expect(again.status).toBe(200)
    expect(again.json.execution_id).toBe(first.json.execution_id)
    const other = await post(execution('y'), { headers: { 'idempotency-key': key } })
    expect(other).toMatchObject({
      status: 409,
      json: { error: { code: 'idempotency_conflict', details: { execution_id: first.json.execution_id } } },
    })
  })

  it('refuses an Idempotency-Key header that contradicts the body', async () => {
    const reply = await post(execution('x', { idempotency_key: 'a' }), {
      headers: { 'idempotency-key': 'b' },
    })
    expect(reply).toMatchObject({ status: 409, json: { error: { code: 'conflict' } } })
  })

  it('returns the result from the store when the queue has deleted it', async () => {
    const first = await post(execution('old', { idempotency_key: 'old-1' }), { wait: '30s' })
    await forget(first.json.execution_id)
    const again = await post(execution('old', { idempotency_key: 'old-1' }), { wait: '30s' })
    expect(again).toMatchObject({
      status: 200,
      json: { execution_id: first.json.execution_id, stdout: 'old\n' },
    })
  })
})

describe('GET /v1/executions/{id}', () => {
  it('answers from the store when the queue has deleted the execution', async () => {
    const { execution_id } = await ended('hello')
    const live = await scene.call({ url: `/v1/executions/${execution_id}` })
    await forget(execution_id)
    const stored = await scene.call({ url: `/v1/executions/${execution_id}`, headers: scene.acme })
    expect(stored.status).toBe(200)
    expect(executionStateSchema.parse(stored.json)).toMatchObject({
      execution_id,
      tenant_id: 'acme',
      status: 'ended',
      result: live.json.result,
    })
  })

  it('does not reveal to another tenant whether an execution exists, live or stored', async () => {
    const { execution_id } = await ended('hello')
    const url = `/v1/executions/${execution_id}`
    const unknown = await scene.call({ url: `/v1/executions/${newExecutionId()}`, headers: scene.globex })
    const foreign = await scene.call({ url, headers: scene.globex })
    await forget(execution_id)
    const stored = await scene.call({ url, headers: scene.globex })
    for (const reply of [unknown, foreign, stored]) {
      expect(reply.status).toBe(404)
      expect(reply.json.error.message).toBe('There is no execution of that id.')
    }
  })
})

describe('POST /v1/executions/{id}/cancel', () => {
  it('stops a running execution, and a repeated cancel answers that it has ended', async () => {
    const { json } = await post(execution('wait'))
    const url = `/v1/executions/${json.execution_id}`
    await vi.waitFor(async () => expect((await scene.call({ url })).json.status).toBe('running'), 20_000)
    const reply = await scene.call({ method: 'POST', url: `${url}/cancel`, payload: { reason: 'enough' } })
    expect(reply).toMatchObject({
      status: 200,
      json: { execution_id: json.execution_id, status: 'cancelling' },
    })
    await vi.waitFor(
      async () => expect((await scene.call({ url })).json.result?.ending).toBe('cancelled'),
      20_000,
    )
    const again = await scene.call({ method: 'POST', url: `${url}/cancel` })
    expect(again).toMatchObject({ status: 200, json: { status: 'ended' } })
  })

  it('ends a delayed execution at once', async () => {
    const { json } = await post(execution('later', { delay_ms: 3_600_000 }))
    const reply = await scene.call({ method: 'POST', url: `/v1/executions/${json.execution_id}/cancel` })
    expect(reply).toMatchObject({ status: 200, json: { status: 'cancelled' } })
  })

  it('redacts secrets in the reason', async () => {
    await scene.store.tenants.setPolicy('acme', { redact: ['correct-horse-battery'] }, 'test')
    const reason = `correct-horse-battery, staple-of-the-donkey, cfd_${'0'.repeat(40)}`
    const env = { API_TOKEN: 'staple-of-the-donkey' }
    const { json } = await post(execution('later', { delay_ms: 3_600_000, env, agent_id: 'secretive' }))
    const url = `/v1/executions/${json.execution_id}`
    await scene.call({ method: 'POST', url: `${url}/cancel`, payload: { reason } })
    const shown = (await scene.call({ url })).json.result.error_message
    expect(shown).toBe('<redacted>, <redacted>, <redacted>')
    // Cancelling all executions of an agent also redacts the reason.
    await post(execution('later', { delay_ms: 3_600_000, env, agent_id: 'secretive' }))
    await scene.call({
      method: 'POST',
      url: '/v1/tenants/acme/cancel',
      payload: { state: 'all', agent_id: 'secretive', reason },
    })
    const rows = await vi.waitFor(async () => {
      const found = (await scene.call({ url: '/v1/audit/invocations?agent_id=secretive' })).json.invocations
      expect(found).toHaveLength(2)
      return found as { failure_reason: string }[]
    }, 20_000)
    expect(rows.map(({ failure_reason: text }) => text)).toEqual([shown, shown])
    await scene.store.tenants.setPolicy('acme', { redact: [] }, 'test')
  })

  it('answers 404 for another tenant’s execution and for an unknown ID', async () => {
    const { json } = await post(execution('later', { delay_ms: 3_600_000 }))
    const url = `/v1/executions/${json.execution_id}/cancel`
    expect((await scene.call({ method: 'POST', url, headers: scene.globex })).status).toBe(404)
    expect(
      (await scene.call({ method: 'POST', url: `/v1/executions/${newExecutionId()}/cancel` })).status,
    ).toBe(404)
    expect((await scene.call({ method: 'POST', url, headers: scene.acme })).status).toBe(200)
  })
})

describe('GET /v1/executions', () => {
  it('lists live executions first, then ended ones by pages, of the caller’s tenant only', async () => {
    const one = await ended('1', { agent_id: 'lister' })
    const two = await ended('2', { agent_id: 'lister' })
    const three = await ended('3', { agent_id: 'lister' })
    const { json: delayed } = await post(execution('later', { agent_id: 'lister', delay_ms: 3_600_000 }))
    const url = '/v1/executions?agent_id=lister&limit=2'
    const first = await scene.call({ url, headers: scene.acme })
    expect(idsOf(first)).toEqual([delayed.execution_id, three.execution_id, two.execution_id])
    expect(first.json.executions[0]).toMatchObject({ status: 'delayed', result: null })
    const second = await scene.call({ url: `${url}&cursor=${first.json.next_cursor}`, headers: scene.acme })
    expect(idsOf(second)).toEqual([one.execution_id])
    expect(second.json.next_cursor).toBeNull()
    expect(idsOf(await scene.call({ url: `${url}&status=live` }))).toEqual([delayed.execution_id])
    expect(idsOf(await scene.call({ url: `${url}&status=ended` }))).toEqual([
      three.execution_id,
      two.execution_id,
    ])
    expect(idsOf(await scene.call({ url, headers: scene.globex }))).toEqual([])
    await scene.call({ method: 'POST', url: `/v1/executions/${delayed.execution_id}/cancel` })
  })

  it('lists each live execution once when more tenants have some than fit on a page', async () => {
    const { redis } = scene
    const ids: string[] = []
    for (let n = 0; n < 130; n += 1) {
      const request = executionRequestSchema.parse({
        ...execution('later', { delay_ms: 3_600_000 }),
        tenant_id: `crowd-${n}`,
        agent_id: n % 10 === 0 ? 'tenth' : 'other',
      })
      ids.push((await scene.producer.put(request)).execution_id)
    }
    const all = async (query: string): Promise<string[]> => {
      const found: string[] = []
      for (let cursor: string | null = ''; cursor !== null;) {
        const reply = await scene.call({
          url: `/v1/executions?status=live&limit=50${query}${cursor === '' ? '' : `&cursor=${cursor}`}`,
        })
        found.push(...idsOf(reply))
        cursor = reply.json.next_cursor
      }
      return found.filter((id) => ids.includes(id))
    }
    expect(await all('')).toEqual(ids.toReversed())
    expect(await all('&agent_id=tenth')).toEqual(ids.filter((_, n) => n % 10 === 0).toReversed())
    expect(await all('&tenant_id=crowd-7')).toEqual([ids[7]])
    expect((await scene.call({ url: '/v1/executions?status=live&cursor=eA' })).status).toBe(400)
    for (const id of ids) await scene.producer.cancel(id as ExecutionId)
    expect(await all('')).toEqual([])
    // Earlier tests cancelled running executions. They count as live until their worker has ended them.
    await expect.poll(() => redis.zcard('{cofferdam}:live-all'), { timeout: 20_000 }).toBe(0)
  })

  it('filters by exit status and by time', async () => {
    const failed = await ended('fail', { agent_id: 'failer' })
    await ended('fine', { agent_id: 'failer' })
    const url = '/v1/executions?agent_id=failer'
    expect(idsOf(await scene.call({ url: `${url}&exit_status=error` }))).toEqual([failed.execution_id])
    expect(idsOf(await scene.call({ url: `${url}&from=2100-01-01T00:00:00Z` }))).toEqual([])
    expect(idsOf(await scene.call({ url: `${url}&to=2020-01-01T00:00:00%2B01:00` }))).toEqual([])
  })

  it.each([
    'limit=0',
    'limit=501',
    'limit=x',
    'cursor=!',
    'from=yesterday',
    'exit_status=dead',
    'nonsense=1',
    'limit=1&limit=2',
  ])('refuses the query %s', async (bad) => {
    expect((await scene.call({ url: `/v1/executions?${bad}` })).status).toBe(400)
  })

  it('refuses a filter that names another tenant', async () => {
    expect((await scene.call({ url: '/v1/executions?tenant_id=acme', headers: scene.globex })).status).toBe(
      403,
    )
  })
})

describe('GET /v1/audit/invocations', () => {
  it('shows a tenant its own rows only, and an admin the rows of every tenant', async () => {
    const { execution_id } = await ended('audited', { agent_id: 'audited' })
    const url = '/v1/audit/invocations?agent_id=audited'
    const own = await scene.call({ url, headers: scene.acme })
    expect(own.json.invocations).toMatchObject([
      { execution_id, tenant_id: 'acme', attempt: 1, ending: 'ok' },
    ])
    expect((await scene.call({ url, headers: scene.globex })).json.invocations).toEqual([])
    expect((await scene.call({ url })).json.invocations).toHaveLength(1)
  })
})

const idsOf = (reply: { json: { executions: { execution_id: string }[] } }): string[] =>
  reply.json.executions.map((one) => one.execution_id)

/** Does what the queue's expiry does an hour after an execution has ended. */
async function forget(id: string): Promise<void> {
  await scene.redis.del(`{cofferdam}:x:${id}`, `{cofferdam}:r:${id}`, `{cofferdam}:e:${id}`)
}
