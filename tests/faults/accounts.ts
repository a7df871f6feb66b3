/** Checks after a fault that each accepted execution has one ending and one audit row, and counters match. */
import type { Accepted, AuditRow, ExecutionRequestInput, ExecutionResult } from '@cofferdam/contract'
import { connectRedis, LANES } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import type { Redis } from 'ioredis'
import { expect } from 'vitest'
import type { Fleet } from '../fleet.ts'
import { DAY_MS } from '../../libs/embedded/src/window-end.ts'

export async function auditRows(fleet: Fleet, tenantId: string): Promise<AuditRow[]> {
  const rows: AuditRow[] = []
  let cursor: string | undefined
  do {
    const page = await fleet.store.listAudit({
      tenantId,
      limit: 500,
      ...(cursor === undefined ? {} : { cursor }),
    })
    rows.push(...page.rows)
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined)
  return rows
}

/** Returns a request that runs a fake program for the tenant. */
export const fakeRequest = (tenantId: string, steps: object[], agent = 'a'): ExecutionRequestInput => ({
  tenant_id: tenantId,
  agent_id: agent,
  backend: 'fake',
  program: { type: 'script', language: 'python', source: steps.map((s) => JSON.stringify(s)).join('\n') },
})

/** Waits until every accepted execution has an ending. Fails with the IDs of those that have none. */
export async function endingsOf(
  fleet: Fleet,
  accepted: readonly Accepted[],
  timeoutMs: number,
): Promise<ExecutionResult[]> {
  const results = await Promise.all(accepted.map((a) => fleet.client.wait(a.execution_id, { timeoutMs })))
  const open = accepted.filter((_, i) => results[i] === null).map((a) => a.execution_id)
  expect(open, 'executions without an ending').toEqual([])
  return results.filter((r) => r !== null)
}

/** Compares executions, endings, audit rows and counters; returns the rows. */
export async function expectExactBooks(
  fleet: Fleet,
  tenantId: string,
  accepted: readonly Pick<Accepted, 'execution_id'>[],
  results: readonly ExecutionResult[],
): Promise<AuditRow[]> {
  await expect
    .poll(async () => (await auditRows(fleet, tenantId)).length, { timeout: 30_000, interval: 200 })
    .toBe(accepted.length)
  const rows = await auditRows(fleet, tenantId)
  const endingByRow = new Map(rows.map((row) => [`${row.execution_id} ${row.attempt}`, row.ending]))
  expect(endingByRow.size).toBe(rows.length)
  for (const result of results)
    expect(endingByRow.get(`${result.execution_id} ${result.attempt}`), result.execution_id).toBe(
      result.ending,
    )
  // The charge of a dead worker is refunded only after its row is written.
  await expect
    .poll(
      async () => {
        const { tenant_daily } = await fleet.admission.usage(tenantId)
        return tenant_daily.used - chargedToday(rows, tenant_daily.resets_at).length
      },
      { timeout: 20_000 },
    )
    .toBe(0)
  return rows
}

/** The rows that were charged in the UTC day that ends at `resetsAt`. Others may be of the day before. */
export function chargedToday(rows: readonly AuditRow[], resetsAt: string): AuditRow[] {
  const fromMs = Date.parse(resetsAt) - DAY_MS
  return rows.filter((row) => row.quota_charged && Date.parse(row.charged_at ?? '') >= fromMs)
}

/** Expects that nothing waits or runs, no slot or lease is held, and no record waits for Postgres. */
export async function expectNothingHeld(fleet: Fleet): Promise<void> {
  const redis = connectRedis(fleet.redisUrl, 'worker')
  try {
    await expect.poll(() => heldNow(redis), { timeout: 30_000, interval: 100 }).toEqual([])
  } finally {
    redis.disconnect()
  }
}

const SETS = [KEYS.out, KEYS.waiting, KEYS.delayed, KEYS.queued].flatMap((key) =>
  LANES.map((lane) => key + lane),
)

async function heldNow(redis: Redis): Promise<string[]> {
  const held: string[] = []
  for (const key of SETS) if ((await redis.zcard(key)) > 0) held.push(key)
  if ((await redis.xlen(KEYS.outbox)) > 0) held.push(KEYS.outbox)
  for await (const tenants of redis.scanStream({ match: `${KEYS.tenant}*` }))
    for (const key of tenants as string[]) if (Number(await redis.hget(key, 'n')) !== 0) held.push(`${key} n`)
  const nowMs = Number((await redis.time())[0]) * 1000
  for await (const leases of redis.scanStream({ match: 'cfd:{*}:lease' }))
    for (const key of leases as string[]) if ((await redis.zcount(key, nowMs, '+inf')) > 0) held.push(key)
  return held
}
