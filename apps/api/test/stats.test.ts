/**
 * GET /v1/stats: minutes without attempts, hand-computed figures, what a tenant sees, and what is refused.
 */
import {
  composeAttempt,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  statsSchema,
  type Ending,
} from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { execution, openScene, type Scene } from './scene.ts'

const MINUTE = 60_000
/** The start of the minute ten minutes ago. */
const base = Math.floor(Date.now() / MINUTE) * MINUTE - 10 * MINUTE
const iso = (ms: number): string => new Date(ms).toISOString()
const RANGE = `from=${iso(base)}&to=${iso(base + 3 * MINUTE)}`

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
  await Promise.all([
    record('acme', 0, 100, 1000),
    record('acme', 59_000, 300, 2000, 'error'),
    record('acme', 2 * MINUTE, 500, 10),
    record('globex', 1000, 20, 30),
  ])
})
afterAll(() => scene?.[Symbol.asyncDispose]())

/** Stores an attempt on the fake backend that ended at `base + endMs`. */
async function record(tenant: string, endMs: number, waitMs: number, runMs: number, ending: Ending = 'ok') {
  const finishedAtMs = base + endMs
  const [startedAtMs, enqueuedAtMs] = [finishedAtMs - runMs, finishedAtMs - runMs - waitMs]
  const request = executionRequestSchema.parse(execution('x', { tenant_id: tenant }))
  const facts = { executionId: newExecutionId(enqueuedAtMs), attempt: 1, request, traceId: null }
  const times = { enqueuedAtMs, startedAtMs, finishedAtMs, retentionDays: 30 }
  const outcome = { ...outcomeWithoutRun(ending, 'x', 'x'), began: true, backend: 'fake' }
  const charge = { caps: null, chargedAtMs: startedAtMs }
  const prices = { prices: { default: { call: 2, cpu_second: 0, gb_second: 0 } } }
  await scene.store.record(composeAttempt({ ...facts, ...times, outcome, ...charge, ...prices }))
}

const stats = async (query: string, headers = scene.admin) => {
  const reply = await scene.call({ url: `/v1/stats?${query}`, headers })
  expect(reply).toMatchObject({ status: 200 })
  return statsSchema.parse(reply.json)
}

describe('GET /v1/stats', () => {
  it('fills every minute of the range', async () => {
    expect(await stats(`${RANGE}&tenant_id=acme`)).toEqual({
      starts_at: iso(base),
      ends_at: iso(base + 3 * MINUTE),
      step_ms: MINUTE,
      counted_from: iso(base),
      group_by: null,
      groups: [],
      rest: null,
      total: {
        count: [2, 0, 1],
        wait_p50_ms: [100, null, 500],
        wait_p95_ms: [300, null, 500],
        run_p50_ms: [1e3, null, 10],
        run_p95_ms: [2e3, null, 10],
        cost: [4e6, 0, 2e6],
      },
    })
  })

  it('groups by ending, backend and tenant', async () => {
    const counts = async (groupBy: string) =>
      (await stats(`${RANGE}&group_by=${groupBy}`)).groups.map(({ key, count }) => [key, count])
    expect(await counts('ending')).toEqual([
      ['ok', [2, 0, 1]],
      ['error', [1, 0, 0]],
    ])
    expect(await counts('backend')).toEqual([['fake', [3, 0, 1]]])
    expect(await counts('tenant')).toEqual([
      ['acme', [2, 0, 1]],
      ['globex', [1, 0, 0]],
    ])
  })

  it('shows a tenant its own attempts, however it asks', async () => {
    for (const query of [RANGE, `${RANGE}&tenant_id=globex`, `${RANGE}&group_by=tenant`])
      expect((await stats(query, scene.globex)).total.count).toEqual([1, 0, 0])
    expect((await stats(`${RANGE}&group_by=tenant`, scene.globex)).groups).toMatchObject([{ key: 'globex' }])
    const other = await scene.call({ url: `/v1/stats?${RANGE}&tenant_id=acme`, headers: scene.globex })
    expect(other).toMatchObject({ status: 403 })
  })

  it('is of the last hour by default, and of a day at most', async () => {
    const now = await stats('')
    expect(now.total.count).toHaveLength((Date.parse(now.ends_at) - Date.parse(now.starts_at)) / MINUTE)
    expect(now.total.count.length - 60).toBeLessThanOrEqual(1)
    expect(now.total.count.reduce<number>((sum, count) => sum + (count ?? 0), 0)).toBe(4)
    const day = await stats(`from=${iso(base - 20 * 60 * MINUTE)}&to=${iso(base + 3 * MINUTE)}&step=1h`)
    expect(day.total.count.length).toBeLessThanOrEqual(22)
    const refused = [
      `from=${iso(base - 25 * 60 * MINUTE)}&to=${iso(base)}`,
      `from=${iso(base)}&to=${iso(base)}`,
      'from=yesterday',
      'step=2m',
      'step=1s',
      'group_by=agent',
      'tenant_id=a%20b',
    ]
    for (const query of refused)
      expect([query, (await scene.call({ url: `/v1/stats?${query}` })).status]).toEqual([query, 400])
  })
})
