/** POST /v1/executions/{id}/rerun: what goes into the queue, what is recorded, and what is refused. */
import { randomBytes } from 'node:crypto'
import { newExecutionId, rerunSchema, type ExecutionId } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { keptExecution } from './kept-execution.ts'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene({}, [{ id: 'k1', key: randomBytes(32) }])
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const rerun = (id: string, payload?: object, more: object = {}) =>
  scene.call({
    method: 'POST',
    url: `/v1/executions/${id}/rerun`,
    headers: scene.acme,
    ...(payload === undefined ? {} : { payload }),
    ...more,
  })
const waited = (id: string, payload?: object) =>
  rerun(id, payload, { url: `/v1/executions/${id}/rerun?wait=30s` })

const stateOf = async (id: string) => (await scene.call({ url: `/v1/executions/${id}` })).json
const rowOf = async (id: ExecutionId) => (await scene.store.findExecution(null, id))?.audit.at(-1)

describe('a rerun', () => {
  it('runs the same program and says which execution it repeats', async () => {
    const { id } = await keptExecution(scene.store, { isSealed: true })
    const reply = await waited(id)
    expect(reply.status).toBe(200)
    const answer = rerunSchema.parse(reply.json)
    const again = answer.execution.execution_id
    expect(answer).toMatchObject({ rerun_of: id, notes: [], result: { ok: true, stdout: 'first run\n' } })
    expect(again).not.toBe(id)
    expect(reply.headers['location']).toBe(`/v1/executions/${again}`)
    expect(await stateOf(again)).toMatchObject({ rerun_of: id, status: 'ended' })
    expect(await rowOf(again)).toMatchObject({ rerun_of: id })
    const listed = await scene.call({ url: '/v1/executions?tenant_id=acme&status=ended' })
    const found = listed.json.executions.find((one: { execution_id: string }) => one.execution_id === again)
    expect(found).toMatchObject({ rerun_of: id })
    expect(await stateOf(id)).not.toHaveProperty('rerun_of')
  })

  it('says so while it is live, and when it is cancelled before it began', async () => {
    const { id } = await keptExecution(scene.store, { request: { session: { key: 'one' } } })
    const blocker = await scene.call({
      method: 'POST',
      url: '/v1/executions',
      payload: execution('wait', { session: { key: 'one' } }),
    })
    const reply = await rerun(id)
    expect(reply.status).toBe(202)
    const again = reply.json.execution.execution_id
    expect(await stateOf(again)).toMatchObject({ rerun_of: id, status: 'queued' })
    await scene.call({ method: 'POST', url: `/v1/executions/${again}/cancel` })
    await expect
      .poll(() => rowOf(again), { timeout: 20_000 })
      .toMatchObject({
        rerun_of: id,
        ending: 'cancelled',
      })
    await scene.call({ method: 'POST', url: `/v1/executions/${blocker.json.execution_id}/cancel` })
  })

  it('takes edits, and hashes the program that it ran', async () => {
    const { id } = await keptExecution(scene.store)
    const program = { type: 'script', language: 'python', source: 'edited' }
    const reply = await waited(id, { edit: { program, args: ['x'], limits: { memory_mib: 64 } } })
    expect(reply.json.result).toMatchObject({ stdout: 'edited\n' })
    const [before, after] = [await rowOf(id), await rowOf(reply.json.execution.execution_id)]
    expect(after?.executed_code_hash).not.toBe(before?.executed_code_hash)
  })

  it('checks the merged request like any other', async () => {
    const { id } = await keptExecution(scene.store)
    const refused = async (edit: object, message: RegExp) => {
      const reply = await rerun(id, { edit })
      expect([reply.status, reply.json.error.code]).toEqual([400, 'invalid_request'])
      expect(reply.json.error.message).toMatch(message)
    }
    await refused({ tenant_id: 'globex' }, /tenant_id/)
    await refused({ rerun_of: newExecutionId() }, /rerun_of/)
    await refused({ limits: { hard_timeout_ms: 7_200_000 } }, /use lane "routine"/)
    await refused({ reuse: 'session' }, /expected session/)
    await refused({ program: { type: 'files', op: 'list' } }, /expected session/)
    expect((await rerun(id, { edits: {} })).status).toBe(400)
  })

  it('with one idempotency key happens once, and not with other edits', async () => {
    const { id } = await keptExecution(scene.store)
    const key = { headers: { ...scene.acme, 'idempotency-key': `again-${id}` } }
    const first = await rerun(id, undefined, key)
    const second = await rerun(id, { idempotency_key: `again-${id}` }, key)
    expect(second.json.execution).toMatchObject({
      execution_id: first.json.execution.execution_id,
      deduplicated: true,
    })
    const other = await rerun(id, { edit: { stdin: 'x' } }, key)
    expect([other.status, other.json.error.code]).toEqual([409, 'idempotency_conflict'])
    const { id: another } = await keptExecution(scene.store)
    expect((await rerun(another, undefined, key)).json.error.code).toBe('idempotency_conflict')
  })

  it('repeats no callback, delay, trace or key of the first, and says what it left out', async () => {
    const request = {
      idempotency_key: 'first-key',
      delay_ms: 600_000,
      callback_url: 'https://example.com/hook',
      traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`,
    }
    const { id } = await keptExecution(scene.store, { request })
    const [first, second] = [await waited(id), await waited(id)]
    expect(first.json.execution).toMatchObject({ deduplicated: false })
    expect(second.json.execution.execution_id).not.toBe(first.json.execution.execution_id)
    expect(first.json.result.trace_id).not.toBe('1'.repeat(32))
    expect(first.json.notes).toEqual([
      { code: 'not_copied', text: expect.stringContaining('callback_url, delay_ms') },
    ])
    expect(await stateOf(first.json.execution.execution_id)).not.toHaveProperty('callback')
  })

  it('says that session, workspace, template and policy are those of today', async () => {
    const request = { session: { key: 'notebook' }, workspace: { name: 'notes' } }
    await scene.store.templates.put(
      { tenant_id: 'acme', template_id: 'strict', sandbox: { environment: 'default-public' } },
      'test',
    )
    const { id } = await keptExecution(scene.store, { request, templateId: 'strict' })
    await scene.store.templates.put(
      { tenant_id: 'acme', template_id: 'strict', sandbox: { environment: 'internal-only' } },
      'test',
    )
    await scene.store.tenants.setPolicy('acme', { network: 'none' }, 'test')
    const reply = await waited(id)
    const codes = reply.json.notes.map((note: { code: string }) => note.code)
    expect(codes).toEqual(['session_now', 'workspace_now', 'template_changed', 'policy_changed'])
    expect(reply.json.notes[3].text).toContain('network')
    expect(await rowOf(reply.json.execution.execution_id)).toMatchObject({ template_id: 'strict' })
    const { id: later } = await keptExecution(scene.store, { startedAtMs: Date.now() + 60_000 })
    expect((await waited(later)).json.notes).toEqual([])
  })

  it('needs values of variables again that were kept without a key', async () => {
    const { id } = await keptExecution(scene.store, { request: { env: { TOKEN: 'secret' } } })
    const refused = await rerun(id)
    expect(refused.json.error).toMatchObject({ code: 'invalid_request', details: { missing_env: ['TOKEN'] } })
    expect((await waited(id, { edit: { env: { TOKEN: 'again' } } })).status).toBe(200)
    const { id: sealed } = await keptExecution(scene.store, {
      request: { env: { TOKEN: 'secret' } },
      isSealed: true,
    })
    expect((await waited(sealed)).status).toBe(200)
  })
})

describe('a rerun is refused', () => {
  const errorOf = async (id: string, more: object = {}) => {
    const { status, json } = await rerun(id, undefined, more)
    return [status, json.error.code, json.error.message, json.error.details] as const
  }

  it('when the program was not kept, with the setting that keeps the next', async () => {
    const { id } = await keptExecution(scene.store, { isKept: false })
    const [status, code, message, details] = await errorOf(id)
    expect([status, code]).toEqual([404, 'not_found'])
    expect(message).toMatch(/has keep_program never, and it ended error\. With errors or always, later/)
    expect(details).toEqual({ keep_program: 'never', kept_by: ['errors', 'always'] })
    await scene.store.tenants.setPolicy('acme', { keep_program: 'errors' }, 'test')
    const { id: ok } = await keptExecution(scene.store, { isKept: false, outcome: { ending: 'ok' } })
    expect((await errorOf(ok))[3]).toEqual({ keep_program: 'errors', kept_by: ['always'] })
    expect((await errorOf(id))[2]).toMatch(/the policy was another one then/)
  })

  it('when it never reached a sandbox', async () => {
    const { id } = await keptExecution(scene.store, {
      isKept: false,
      outcome: { ending: 'cap_exceeded', backend: null },
    })
    expect((await errorOf(id))[2]).toMatch(/ended cap_exceeded and never reached a sandbox/)
  })

  it('when the kept program is deleted by now', async () => {
    const { id, ref } = await keptExecution(scene.store)
    await scene.store.blobs.delete(ref ?? '')
    const [status, , message] = await errorOf(id)
    expect([status, message]).toEqual([404, expect.stringMatching(/deleted by now.*output_retention_days/)])
  })

  it('before the first one has ended', async () => {
    const live = await scene.call({ method: 'POST', url: '/v1/executions', payload: execution('wait') })
    const id = live.json.execution_id
    expect((await errorOf(id)).slice(0, 2)).toEqual([409, 'conflict'])
    await scene.call({ method: 'POST', url: `/v1/executions/${id}/cancel` })
  })

  it('with a key of another tenant as if it did not exist, and without a key', async () => {
    const { id } = await keptExecution(scene.store)
    const foreign = await errorOf(id, { headers: scene.globex })
    const unknown = await errorOf(newExecutionId())
    expect(foreign.slice(0, 3)).toEqual(unknown.slice(0, 3))
    expect(foreign[0]).toBe(404)
    expect((await errorOf(id, { headers: { authorization: 'Bearer nothing' } }))[0]).toBe(401)
  })

  it('with a key that is bound to another template', async () => {
    for (const template_id of ['mine', 'other'])
      await scene.store.templates.put(
        { tenant_id: 'acme', template_id, sandbox: { environment: 'default-public' } },
        'test',
      )
    const made = await scene.store.keys.create({ tenant_id: 'acme' }, 'bound', { templateId: 'mine' })
    const headers = { authorization: `Bearer ${made.key}` }
    const [other, none, mine] = await Promise.all([
      keptExecution(scene.store, { templateId: 'other' }),
      keptExecution(scene.store),
      keptExecution(scene.store, { templateId: 'mine' }),
    ])
    for (const { id } of [other, none])
      expect((await errorOf(id, { headers })).slice(0, 3)).toEqual([
        403,
        'forbidden',
        expect.stringMatching(/may run again only executions that run under it/),
      ])
    expect((await rerun(mine.id, undefined, { headers })).status).toBe(202)
  })

  it('when the caller has too many kept programs in memory', async () => {
    const { id } = await keptExecution(scene.store, { request: { stdin: 'x'.repeat(50_000) } })
    const small = await scene.another({ bodyBytes: 40_000 })
    const reply = await small.inject({
      method: 'POST',
      url: `/v1/executions/${id}/rerun`,
      headers: scene.acme,
    })
    expect([reply.statusCode, reply.json().error.code]).toEqual([503, 'busy'])
  })
})
