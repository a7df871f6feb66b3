/** GET /v1/executions/{id}/why: the sentences, who may read which, and what ended executions say. */
import {
  composeAttempt,
  executionRequestSchema,
  executionWhySchema,
  newExecutionId,
  outcomeWithoutRun,
  type Outcome,
} from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitingFact } from '../src/why/waiting.ts'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const whyOf = async (id: string, key = scene.admin) => {
  const reply = await scene.call({ url: `/v1/executions/${id}/why`, headers: key })
  expect(reply.status).toBe(200)
  return executionWhySchema.parse(reply.json)
}

/** Stores an ended execution of acme. */
async function record(outcome: Outcome, facts: Partial<Parameters<typeof composeAttempt>[0]> = {}) {
  const executionId = newExecutionId()
  const request = executionRequestSchema.parse(execution('print(1)'))
  const nowMs = Date.now()
  const times = { enqueuedAtMs: nowMs - 2000, startedAtMs: nowMs - 1000, finishedAtMs: nowMs }
  const about = { executionId, attempt: 1, request, outcome, traceId: null, retentionDays: 30 }
  await scene.store.record(composeAttempt({ ...about, ...times, caps: null, chargedAtMs: null, ...facts }))
  return executionId
}

describe('an execution that waits', () => {
  it('is told its facts in order of weight, with what to do', async () => {
    const accepted = await scene.call({
      method: 'POST',
      url: '/v1/executions',
      payload: execution('x', { delay_ms: 600_000 }),
    })
    const why = await whyOf(accepted.json.execution_id)
    expect(why).toMatchObject({
      status: 'delayed',
      facts: [{ question: 'waits', code: 'delayed', text: expect.stringMatching(/not before/) }],
    })
    expect(Date.parse(why.facts[0]?.until ?? '')).toBeGreaterThan(Date.now())
  })

  it('shows figures of the fleet and its workers to operators alone', () => {
    const fact = { code: 'turn', ahead: 3, eta_ms: -1, weight: 1, fleet_running: 4, fleet_slots: 4 } as const
    expect(waitingFact(fact, true).figures).toEqual({ ahead: 3, weight: 1, fleet_running: 4, fleet_slots: 4 })
    expect(waitingFact(fact, false).figures).toEqual({ ahead: 3, weight: 1 })
    const owned = { code: 'session_worker', worker_id: 'wrk_1', ahead: 0 } as const
    expect(JSON.stringify(waitingFact(owned, false))).not.toContain('wrk_1')
  })
})

describe('an ended execution', () => {
  it('is told the cap that refused it, its figures, and who set it', async () => {
    await scene.store.tenants.setCaps('acme', { tenant_daily: 7 }, 'alice')
    await scene.store.tenants.setCaps('acme', { agent_hourly: 50 }, 'bob')
    const resetsAt = '2026-11-27T00:00:00.000Z'
    const use = { used: 7, limit: 7, resets_at: resetsAt }
    const id = await record(outcomeWithoutRun('cap_exceeded', 'cap_exceeded', 'The cap is used up.'), {
      caps: { tenant_daily: use, agent_hourly: { ...use, used: 1, limit: 50 } },
      refusal: { dimension: 'tenant_daily', resetsAt, killSwitch: false },
    })
    const { facts } = await whyOf(id, scene.acme)
    expect(facts).toMatchObject([
      {
        question: 'refused',
        code: 'tenant_daily',
        text: expect.stringMatching(/^The cap is used up\. alice set this cap at \d{4}-/),
        figures: { used: 7, limit: 7, kill_switch: false },
        until: resetsAt,
        action: expect.stringContaining('raise the cap'),
      },
      { question: 'ending', code: 'cap_exceeded' },
    ])
  })

  it('is told the backends that were passed over, and the one that ran it', async () => {
    const ran = { ...outcomeWithoutRun('ok', 'x', 'x'), reason: null, failureReason: null, exitCode: 0 }
    const passedOver = [
      { backend: 'process', reason: 'isolation_unavailable' },
      { backend: 'gvisor', reason: 'backend_unavailable' },
    ]
    const id = await record({ ...ran, backend: 'docker', isolation: 'container', passedOver })
    expect((await whyOf(id)).facts).toMatchObject([
      { question: 'ending', code: 'ok', figures: { exit_code: 0, duration_ms: 1000 } },
      {
        question: 'backend',
        code: 'passed_over',
        text: 'process came first, but isolates less than its tenant and its request demand.',
        figures: { backend: 'process', reason: 'isolation_unavailable' },
      },
      {
        question: 'backend',
        code: 'passed_over',
        text: 'gvisor came first, but could not open a sandbox: backend_unavailable.',
        figures: { backend: 'gvisor', reason: 'backend_unavailable' },
      },
      { question: 'backend', code: 'taken', figures: { backend: 'docker', isolation: 'container' } },
    ])
  })

  it('is told what policy said, and what to do', async () => {
    const id = await record(
      outcomeWithoutRun('policy_denied', 'network_not_allowed', 'The tenant allows no network.'),
    )
    expect((await whyOf(id)).facts[0]).toMatchObject({
      question: 'refused',
      code: 'network_not_allowed',
      text: 'The tenant allows no network.',
      action: expect.stringContaining('policy'),
    })
  })

  it('of another tenant is not found, and neither is an unknown one', async () => {
    const id = await record(outcomeWithoutRun('policy_denied', 'x', 'x'))
    for (const url of [`/v1/executions/${id}/why`, `/v1/executions/${newExecutionId()}/why`])
      expect((await scene.call({ url, headers: scene.globex })).status).toBe(404)
  })
})
