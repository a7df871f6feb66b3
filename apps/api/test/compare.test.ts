/** GET /v1/executions/{id}/compare: two results side by side. */
import { comparisonSchema, newExecutionId, unmeasuredUsage } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { keptExecution, text } from './kept-execution.ts'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const compare = (id: string, other = '', headers = scene.acme) =>
  scene.call({ url: `/v1/executions/${id}/compare${other === '' ? '' : `?with=${other}`}`, headers })

const ok = { ending: 'ok', exitCode: 0, failureReason: null, reason: null } as const
const artifact = (path: string, sha: string) => ({ path, size: 1, sha256: sha.repeat(64), ref: 'r' })

describe('a comparison', () => {
  it('shows endings, outputs, values, artifacts and usage of both', async () => {
    const first = await keptExecution(scene.store, {
      outcome: {
        stdout: text('a\nb\n'),
        stderr: text('Traceback\n'),
        artifacts: [artifact('gone', 'a'), artifact('kept', 'b'), artifact('new.csv', 'c')],
        usage: { ...unmeasuredUsage(5), cpu_ms: 3 },
      },
    })
    const second = await keptExecution(scene.store, {
      request: { program: { type: 'script', language: 'python', source: 'other' } },
      outcome: {
        ...ok,
        stdout: text('a\nc\n'),
        value: { answer: 42 },
        artifacts: [artifact('kept', 'b'), artifact('new.csv', 'd'), artifact('more', 'e')],
        usage: { ...unmeasuredUsage(5), cpu_ms: 9 },
      },
    })
    const found = comparisonSchema.parse((await compare(second.id, first.id)).json)
    expect(found).toMatchObject({
      first: { execution_id: first.id, ending: 'error', exit_code: 3, usage: { cpu_ms: 3 }, duration_ms: 40 },
      second: {
        execution_id: second.id,
        ending: 'ok',
        exit_code: 0,
        usage: { cpu_ms: 9 },
        value: { answer: 42 },
      },
      differences: ['program', 'ending', 'exit_code', 'stdout', 'stderr', 'value', 'artifacts'],
      stdout: {
        same: false,
        added: 1,
        removed: 1,
        lines: [
          { kind: 'same', text: 'a' },
          { kind: 'removed', text: 'b' },
          { kind: 'added', text: 'c' },
        ],
      },
      stderr: { removed: 1, added: 0 },
    })
    expect(found.artifacts).toEqual([
      { path: 'gone', change: 'removed' },
      { path: 'new.csv', change: 'changed' },
      { path: 'more', change: 'added' },
    ])
  })

  it('of two equal results has no differences, whatever the durations are', async () => {
    const outcome = { ...ok, stdout: text('same\n') }
    const [first, second] = [
      await keptExecution(scene.store, { outcome }),
      await keptExecution(scene.store, { outcome: { ...outcome, usage: unmeasuredUsage(99) } }),
    ]
    expect((await compare(second.id, first.id)).json).toMatchObject({
      differences: [],
      stdout: { same: true, lines: [] },
      artifacts: [],
    })
  })

  it('takes the execution that it runs again by default', async () => {
    const { id } = await keptExecution(scene.store)
    const reply = await scene.call({ method: 'POST', url: `/v1/executions/${id}/rerun?wait=30s` })
    const again = reply.json.execution.execution_id
    expect((await compare(again)).json).toMatchObject({
      first: { execution_id: id },
      second: { execution_id: again, rerun_of: id },
      differences: ['ending', 'exit_code', 'stdout'],
    })
    const alone = await compare(id)
    expect([alone.status, alone.json.error.code]).toEqual([400, 'invalid_request'])
  })

  it('of executions of another tenant finds nothing, on either side', async () => {
    const mine = await keptExecution(scene.store)
    const theirs = await keptExecution(scene.store, { request: { tenant_id: 'globex' } })
    for (const [id, other] of [
      [mine.id, theirs.id],
      [theirs.id, mine.id],
      [mine.id, newExecutionId()],
    ] as const)
      expect((await compare(id, other)).status).toBe(404)
    expect((await compare(mine.id, theirs.id, scene.admin)).status).toBe(200)
  })

  it('waits for no ending', async () => {
    const { id } = await keptExecution(scene.store)
    const live = await scene.call({ method: 'POST', url: '/v1/executions', payload: execution('wait') })
    expect((await compare(live.json.execution_id, id)).status).toBe(409)
    await scene.call({ method: 'POST', url: `/v1/executions/${live.json.execution_id}/cancel` })
  })
})
