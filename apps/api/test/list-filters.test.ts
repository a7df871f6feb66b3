/** Filters of GET /v1/executions and /v1/audit/invocations by program, session and duration. */
import type { ExecutionId, ExecutionState } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { execution, openScene, SCENE_SESSION, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const list = async (query: string): Promise<ExecutionState[]> => {
  const reply = await scene.call({ url: `/v1/executions?${query}`, headers: scene.acme })
  expect(reply).toMatchObject({ status: 200 })
  return reply.json.executions
}
const put = async (extra: object): Promise<string> => {
  const payload = execution('x', extra)
  const reply = await scene.call({ method: 'POST', url: '/v1/executions', payload })
  expect(reply).toMatchObject({ status: 202 })
  return reply.json.execution_id
}
const bash = { program: { type: 'script', language: 'bash', source: 'x' } }
const idsOf = (states: readonly ExecutionState[]) => states.map(({ execution_id }) => execution_id)

describe('the list of executions', () => {
  it('shows and filters live executions by what they run, with the key of their session', async () => {
    const later = { delay_ms: 600_000 }
    // Use a session of a run too, because its key contains colons.
    await scene.producer.setRunSessions('acme', true)
    const python = await put({ ...later, run_id: 'r1' })
    await scene.producer.setRunSessions('acme', false)
    const [script, command] = [
      await put({ ...later, ...bash }),
      await put({ ...later, program: { type: 'command', shell: 'true' } }),
    ]
    const shown = await list('status=live')
    const facts = (id: string) => shown.find(({ execution_id }) => execution_id === id)
    expect(facts(python)).toMatchObject({ program_kind: 'script/python', session_key: 'run:agent-1:r1' })
    expect(facts(script)).toMatchObject({ program_kind: 'script/bash' })
    expect(facts(script)).not.toHaveProperty('session_key')
    expect(idsOf(await list('status=live&program_kind=script'))).toEqual([script, python])
    expect(idsOf(await list('program_kind=command'))).toEqual([command])
    for (const query of ['min_duration_ms=0', 'exit_status=ok', `session_id=ses_${'0'.repeat(32)}`])
      expect(idsOf(await list(`status=live&${query}`))).toEqual([])
    const one = await scene.call({ url: `/v1/executions/${python}` })
    expect(one.json).toMatchObject({
      status: 'delayed',
      program_kind: 'script/python',
      session_key: 'run:agent-1:r1',
    })
  })

  it('filters live executions by all that is known of them before they end', async () => {
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
    const known = {
      agent_id: 'known',
      user_id: 'user-7',
      run_id: 'run-7',
      template_id: 'strict',
      backend: 'docker',
      traceparent: `00-${trace}-00f067aa0ba902b7-01`,
    }
    const waits = await put({ ...known, delay_ms: 600_000 })
    const runs = await put({
      agent_id: 'known',
      session: { key: 'notes' },
      program: { ...bash.program, source: 'wait' },
    })
    const of = async (query: string) => idsOf(await list(`agent_id=known&${query}`))
    await vi.waitFor(async () => expect(await of('status=live&backend=fake')).toEqual([runs]), 30_000)
    const filters = [
      'user_id=user-7',
      'run_id=run-7',
      'template_id=strict',
      'backend=docker',
      `trace_id=${trace}`,
    ]
    for (const query of filters)
      for (const status of ['status=live&', ''])
        expect([query, await of(`${status}${query}`)]).toEqual([query, [waits]])
    expect(await of(filters.join('&'))).toEqual([waits])
    expect(await of(`session_id=${SCENE_SESSION}`)).toEqual([runs])
    for (const query of [
      'user_id=run-7',
      'run_id=user-7',
      'template_id=other',
      'backend=gvisor',
      `trace_id=${'1'.repeat(32)}`,
    ])
      expect([query, await of(query)]).toEqual([query, []])
    const shown = await list('status=live&agent_id=known')
    expect(shown.map(({ backend }) => backend)).toEqual(['fake', 'docker'])

    const [{ enqueued_at: later }, { enqueued_at: earlier }] = shown as [ExecutionState, ExecutionState]
    expect(await of(`status=live&from=${later}`)).toEqual([runs])
    expect(await of(`status=live&to=${later}`)).toEqual([waits])
    expect(await of(`status=live&from=${earlier}`)).toEqual([runs, waits])
    expect(await scene.producer.cancel(runs as ExecutionId)).toBe('cancelling')
    await vi.waitFor(async () => expect(await of('status=ended&backend=fake')).toEqual([runs]), 30_000)
    expect(await of(`status=ended&backend=docker`)).toEqual([])
  })

  it('filters ended executions by what they ran and how long they took', async () => {
    const id = await put({ ...bash, agent_id: 'ended' })
    const ended = 'status=ended&agent_id=ended'
    await vi.waitFor(async () => expect(idsOf(await list(ended))).toEqual([id]), 30_000)
    expect(await list(`${ended}&program_kind=script/bash&min_duration_ms=0`)).toMatchObject([
      { execution_id: id, program_kind: 'script/bash' },
    ])
    for (const query of ['program_kind=script/python', 'min_duration_ms=100000', 'program_kind=tests'])
      expect([query, idsOf(await list(`${ended}&${query}`))]).toEqual([query, []])
    const rows = await scene.call({ url: '/v1/audit/invocations?program_kind=script&agent_id=ended' })
    expect(rows.json.invocations).toMatchObject([{ execution_id: id, program_kind: 'script/bash' }])
  })

  it('refuses values that are no kind, session or duration', async () => {
    const refused = ['program_kind=ruby', 'session_id=chat', 'min_duration_ms=-1', 'max_duration_ms=1e3']
    for (const path of ['executions', 'audit/invocations', 'audit/feed', 'audit/export'])
      for (const query of [...refused, 'min_duration_ms=99999999999'])
        expect([query, (await scene.call({ url: `/v1/${path}?${query}` })).status]).toEqual([query, 400])
  })
})
