/** GET /v1/queue/tenants over a real queue and store: rows, shares of the last minute, orders, rights. */
import {
  composeAttempt,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  queueTenantsSchema,
  type QueueTenant,
} from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { execution, openScene, type Scene } from './scene.ts'

const SOON = { timeout: 30_000, interval: 100 }

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const list = async (query = '') => {
  const reply = await scene.call({ url: `/v1/queue/tenants${query}` })
  expect(reply).toMatchObject({ status: 200 })
  return queueTenantsSchema.parse(reply.json)
}
const rowOf = (rows: readonly QueueTenant[], tenant: string) =>
  rows.find(({ tenant_id }) => tenant_id === tenant)
const names = (rows: readonly QueueTenant[]) => rows.map(({ tenant_id }) => tenant_id)

/** Enqueues executions. Each one that starts holds its slot until it is cancelled or the scene ends. */
async function put(tenant: string, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let n = 0; n < count; n += 1) {
    const reply = await scene.call({
      method: 'POST',
      url: '/v1/executions',
      payload: execution('wait', { tenant_id: tenant }),
    })
    ids.push(reply.json.execution_id)
  }
  return ids
}

/** Stores an attempt that ran from `fromMs` to `toMs`. */
async function record(tenant: string, fromMs: number, toMs: number): Promise<void> {
  const request = executionRequestSchema.parse(execution('x', { tenant_id: tenant }))
  const facts = { executionId: newExecutionId(fromMs), attempt: 1, request, traceId: null, retentionDays: 30 }
  const times = { enqueuedAtMs: fromMs, startedAtMs: fromMs, finishedAtMs: toMs }
  const outcome = { ...outcomeWithoutRun('ok', '', ''), reason: null, failureReason: null }
  await scene.store.record(composeAttempt({ ...facts, ...times, outcome, caps: null, chargedAtMs: null }))
}

const limits = (weight: number, concurrency: number) => ({ weight, concurrency, max_queued: null })

describe('the tenants of the queue', () => {
  it('are none while nothing waits or runs', async () => {
    expect(await list()).toMatchObject({ tenants: [], total: 0, complete: true })
  })

  it('are shown with what they get and are due, in every order', async () => {
    await scene.producer.setTenantLimits('acme', limits(1, 3))
    await scene.producer.setTenantLimits('globex', limits(3, 2))
    await scene.producer.setTenantLimits('zeta', limits(4, 9))
    await scene.store.tenants.setCaps('globex', { tenant_daily: 0 }, 'test')
    const acme = await put('acme', 5)
    await put('globex', 4)
    await put('zeta', 2)
    // The worker has 4 slots, so the queue releases 5 executions (window factor 1.25). By their limits and
    // the order of arrival, acme gets 3 of them and globex 2.
    const reading = async () => {
      const found = await list()
      expect(found.tenants).toHaveLength(3)
      expect(found.tenants.map(({ waiting, running }) => waiting + running).toSorted()).toEqual([2, 4, 5])
      return found
    }
    const { tenants, at } = await vi.waitFor(reading, SOON)
    expect(rowOf(tenants, 'acme')).toMatchObject({
      waiting: 2,
      running: 3,
      delayed: 0,
      concurrency: 3,
      max_queued: 1e4,
      weight: 1,
      due_share: 1 / 8,
      place: null,
      parked_until: null,
      kill_switch: false,
    })
    expect(rowOf(tenants, 'globex')).toMatchObject({
      waiting: 2,
      running: 2,
      concurrency: 2,
      due_share: 3 / 8,
      place: null,
      kill_switch: true,
    })
    expect(rowOf(tenants, 'zeta')).toMatchObject({
      waiting: 2,
      running: 0,
      due_share: 0.5,
      place: 1,
      share_1m: 0,
    })
    for (const { oldest_age_ms: age } of tenants) {
      expect(age).toBeGreaterThanOrEqual(0)
      expect(age).toBeLessThan(Date.now() - Date.parse(at) + 60_000)
    }
    expect(names((await list('?sort=next')).tenants)[0]).toBe('zeta')
    expect(names((await list('?sort=share')).tenants).at(-1)).toBe('zeta')
    expect(await list('?sort=waiting&limit=1')).toMatchObject({ tenants: [{ waiting: 2 }], total: 3 })
    const lags = (await list('?sort=lag')).tenants.map(({ virtual_lag: lag }) => lag ?? -Infinity)
    expect(lags).toEqual(lags.toSorted((a, b) => b - a))
    await scene.call({ method: 'POST', url: `/v1/executions/${acme[0]}/cancel` })
  })

  it('got the part of the last minute that the workers spent on them', async () => {
    // The share also counts executions that still run, from the time when a worker took them. The attempts
    // recorded here are much longer in total.
    const atMs = Date.now()
    await record('acme', atMs - 30_000, atMs - 1)
    // At most the last 2 s of globex's attempt are in the last minute. zeta's ended before it.
    await record('globex', atMs - 3_600_000, atMs - 58_000)
    await record('zeta', atMs - 200_000, atMs - 100_000)
    await record('gone', atMs - 50_000, atMs - 20_000)
    const { tenants, at } = await vi.waitFor(async () => {
      const found = await list()
      expect(Date.parse(found.at)).toBeGreaterThan(atMs)
      return found
    }, SOON)
    const later = Date.parse(at) - atMs
    const held = await scene.producer.tenants()
    const heldMs = (tenant: string) =>
      held.held
        .filter(({ tenantId }) => tenantId === tenant)
        .reduce((sum, { sinceMs }) => sum + Math.min(60_000, Date.parse(at) - sinceMs), 0)
    const work = {
      acme: 30_000 - 1 + heldMs('acme'),
      globex: Math.max(0, 2000 - later) + heldMs('globex'),
      zeta: heldMs('zeta'),
    }
    // The total includes the 30 s of `gone`, which is not listed because it has nothing waiting or running.
    const total = work.acme + work.globex + work.zeta + 30_000
    // The sums leave out the execution that the previous test cancelled, because it ran for only some hundred
    // milliseconds.
    for (const [tenant, ms] of Object.entries(work))
      expect(rowOf(tenants, tenant)?.share_1m).toBeCloseTo(ms / total, 1)
    expect(rowOf(tenants, 'gone')).toBeUndefined()
  })

  it('are for operators only', async () => {
    const refused = await scene.call({ url: '/v1/queue/tenants', headers: scene.acme })
    expect(refused).toMatchObject({ status: 403, json: { error: { code: 'forbidden' } } })
    expect(refused.json.error.message).toContain('admin key')
    for (const query of ['?sort=name', '?limit=0', '?limit=501', '?tenant_id=acme'])
      expect((await scene.call({ url: `/v1/queue/tenants${query}` })).status).toBe(400)
  })
})
