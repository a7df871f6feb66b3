/** Caps are never exceeded and charges never leak, also when processes die. All counts are exact. */
import { DEFAULT_TENANT_CAPS, newExecutionId, type TenantCaps } from '@cofferdam/contract'
import { inLongTier } from '@cofferdam/embedded/needs'
import { isolatedRedis, type TestServer } from '@cofferdam/embedded/testing'
import type { Redis } from 'ioredis'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { CapClientOrders, CapClientTotals } from './cap-client.ts'
import { attemptOf, ledger, LONG_WINDOWS, openAdmission, type Opened } from './open-admission.ts'

const LEASE_MS = 500
const AGENTS = 10

let server: TestServer
let open: Opened
const children: ChildProcess[] = []
beforeAll(async () => {
  server = await isolatedRedis()
  open = openAdmission(server.url, { ...LONG_WINDOWS, leaseMs: LEASE_MS })
})
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})
afterAll(async () => {
  open.close()
  await server.stop()
})

/** Runs 32 clients in 4 processes on one tenant. Returns a promise of each one's totals (null if killed). */
async function fight(
  tenantId: string,
  caps: Partial<TenantCaps>,
  seed: number,
  ends: (process: number) => CapClientOrders['end'] = () => 60,
) {
  await open.admission.setCaps(tenantId, { ...DEFAULT_TENANT_CAPS, concurrency: 1000, ...caps })
  const shared = Array.from({ length: 100 }, () => newExecutionId())
  return Array.from({ length: 4 }, (_, i) => {
    const orders: CapClientOrders = {
      url: server.url,
      tenantId,
      clients: 8,
      end: ends(i),
      agents: AGENTS,
      shared,
      leaseMs: LEASE_MS,
      ...LONG_WINDOWS,
      seed: seed + i,
    }
    const child = spawn(
      process.execPath,
      [fileURLToPath(new URL('cap-client.ts', import.meta.url)), JSON.stringify(orders)],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    children.push(child)
    const ended = Promise.all([once(child, 'exit'), text(child.stdout)]).then(([, printed]) =>
      printed === '' ? null : (JSON.parse(printed) as CapClientTotals),
    )
    return { child, ended }
  })
}

/** What Redis holds, read without the library. */
async function seen(redis: Redis, tenantId: string) {
  const count = async (name: string) => Number((await redis.hget(name, 'n')) ?? 0)
  const hours = await Promise.all(
    Array.from({ length: AGENTS }, (_, i) => count(`cfd:{${tenantId}}:hr:agent-${i}`)),
  )
  return {
    day: await count(`cfd:{${tenantId}}:day`),
    hours,
    sumOfHours: hours.reduce((sum, n) => sum + n, 0),
    entries: (await ledger(redis, tenantId)).length,
  }
}

const sum = (values: number[]): number => values.reduce((a, b) => a + b, 0)

describe('32 clients in 4 processes', () => {
  it('fill the day exactly to its cap', async () => {
    const tenant = 'by-day'
    const fighters = await fight(tenant, { tenant_daily: 300, agent_hourly: 100 }, 1)
    const totals = (await Promise.all(fighters.map((f) => f.ended))).map((t) => t!)
    const counted = await seen(open.redis, tenant)
    expect(sum(totals.map((t) => t.refused['tenant_daily'] ?? 0))).toBeGreaterThan(0)
    expect(counted.entries).toBe(sum(totals.map((t) => t.charged - t.refunded)))
    expect(counted.day).toBe(counted.entries)
    expect(counted.sumOfHours).toBe(counted.entries)
    // Refunds near the end may leave space. A single client then fills the day exactly.
    await fillUp(tenant)
    expect((await seen(open.redis, tenant)).day).toBe(300)
  })

  inLongTier(
    'fill the hour of each agent exactly to its cap',
    async () => {
      const tenant = 'by-hour'
      const fighters = await fight(tenant, { tenant_daily: 5000, agent_hourly: 25 }, 100)
      const totals = (await Promise.all(fighters.map((f) => f.ended))).map((t) => t!)
      const counted = await seen(open.redis, tenant)
      expect(Math.max(...counted.hours)).toBeLessThanOrEqual(25)
      expect(counted.entries).toBe(sum(totals.map((t) => t.charged - t.refunded)))
      expect(counted.day).toBe(counted.entries)
      expect(counted.sumOfHours).toBe(counted.entries)
      await fillUp(tenant)
      expect((await seen(open.redis, tenant)).hours).toEqual(Array.from({ length: AGENTS }, () => 25))
    },
    120_000,
  )

  inLongTier(
    'never run more at once than the limit, and leases of dead processes expire',
    async () => {
      const tenant = 'by-lease'
      const fighters = await fight(
        tenant,
        { tenant_daily: 100_000, agent_hourly: 100_000, concurrency: 5 },
        200,
      )
      const all = Promise.all(fighters.map((f) => f.ended))
      let most = 0
      let over = false
      void all.finally(() => (over = true))
      while (!over) most = Math.max(most, (await open.admission.usage(tenant)).concurrency.running)
      const totals = (await all).map((t) => t!)
      expect(most).toBe(5)
      expect(sum(totals.map((t) => t.refused['tenant_concurrency'] ?? 0))).toBeGreaterThan(0)
      await leasesFree(tenant)
    },
    120_000,
  )

  it('leave exact counts when processes are killed at any time', async () => {
    const tenant = 'killed'
    // A process that is to be killed does not end before, however long the test takes to kill it.
    const caps = { tenant_daily: 400, agent_hourly: 60, concurrency: 200 }
    const fighters = await fight(tenant, caps, 300, (process) => (process < 3 ? 'killed' : 250))
    for (const [i, { child, ended }] of fighters.slice(0, 3).entries()) {
      // Each is killed during its work: after some more charges were seen.
      await vi.waitFor(
        async () => expect((await seen(open.redis, tenant)).entries).toBeGreaterThan(30 * (i + 1)),
        { timeout: 60_000, interval: 2 },
      )
      child.kill('SIGKILL')
      expect(await ended).toBeNull()
    }
    expect(await fighters[3]!.ended).not.toBeNull()
    const counted = await seen(open.redis, tenant)
    expect(counted.day).toBe(counted.entries)
    expect(counted.sumOfHours).toBe(counted.entries)
    expect(counted.day).toBeLessThanOrEqual(400)
    expect(Math.max(...counted.hours)).toBeLessThanOrEqual(60)
    await leasesFree(tenant)
    await fillUp(tenant)
    expect((await seen(open.redis, tenant)).day).toBe(400)
  }, 180_000)

  it('stop within one call of each when the kill switch is set', async () => {
    const tenant = 'switched'
    const caps = { tenant_daily: 100_000, agent_hourly: 100_000 }
    const fighters = await fight(tenant, caps, 400, () => 'refused')
    await vi.waitFor(async () => expect((await seen(open.redis, tenant)).entries).toBeGreaterThan(20), {
      timeout: 60_000,
      interval: 2,
    })
    await open.admission.setCaps(tenant, { ...DEFAULT_TENANT_CAPS, tenant_daily: 0 })
    const [seconds, micros] = await open.redis.time()
    const fellAtMs = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
    const totals = (await Promise.all(fighters.map((f) => f.ended))).map((t) => t!)
    expect(sum(totals.map((t) => t.refused['tenant_daily'] ?? 0))).toBeGreaterThan(0)
    const charges = await Promise.all(
      (await ledger(open.redis, tenant)).map(async (name) =>
        Number((await open.redis.get(name))?.split(':')[2]),
      ),
    )
    expect(Math.max(...charges)).toBeLessThanOrEqual(fellAtMs)
  })
})

/** Every agent makes attempts until its hour or the day refuses it. */
async function fillUp(tenant: string): Promise<void> {
  for (let i = 0; i < AGENTS; i++)
    for (;;) {
      const verdict = await open.admission.admit(attemptOf(tenant, `agent-${i}`))
      if (verdict.admitted) await open.admission.release(verdict.lease)
      else if (verdict.dimension !== 'tenant_concurrency') break
    }
}

async function leasesFree(tenant: string): Promise<void> {
  await vi.waitFor(async () => expect((await open.admission.usage(tenant)).concurrency.running).toBe(0), {
    timeout: 20_000,
    interval: 20,
  })
}
