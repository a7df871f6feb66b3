/**
 * The counters of runs, CPU and cost match the audit rows after every kind of ending, killed workers, and a
 * Redis that lost its data. A kill switch also stops executions that were accepted before.
 */
import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import {
  DEFAULT_TENANT_CAPS,
  MICRO,
  type Accepted,
  type AuditRow,
  type TenantCaps,
} from '@cofferdam/contract'
import { inLongTier } from '@cofferdam/embedded/needs'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'
import { DAY_MS, HOUR_MS, untilWindowLasts } from '@cofferdam/embedded/testing'
import { auditRows, chargedToday, endingsOf, expectExactBooks, fakeRequest } from './accounts.ts'

let fleet: Fleet
let config: string
beforeAll(async () => {
  fleet = await startFleet({ durable: true })
  config = path.join(fleet.dataDir, 'cofferdam.config.yaml')
  await writeFile(
    config,
    'backends:\n  fake: {}\nprices:\n  fake: {call: 0.001, cpu_second: 0.01, gb_second: 0.0001}\n',
  )
})
afterAll(async () => fleet[Symbol.asyncDispose]())

const startWorker = (): Promise<FleetWorker> =>
  fleet.startWorker({ COFFERDAM_CONFIG: config, COFFERDAM_SLOTS: '8' })
const NONE = { min_isolation: 'none' as const }
const CAPS: TenantCaps = { ...DEFAULT_TENANT_CAPS, tenant_daily: 100_000, agent_hourly: 100_000 }
const METERED: TenantCaps = {
  ...CAPS,
  tenant_daily_cpu_seconds: 1_000_000,
  tenant_daily_cost: 1_000_000 * MICRO,
}
/** Lock (9 s) + stalled check (3 s) + the sweep, on a slow machine. */
const RECOVERY_MS = 90_000
/**
 * A dead worker's lease lasts 15 s. Its reservation is settled when the rows are read after that, at most
 * every 10 s.
 */
const LEASE_OVER_MS = 60_000

/** Does what PUT /v1/tenants/{id}/caps does. */
async function setCaps(tenantId: string, caps: TenantCaps): Promise<void> {
  await fleet.store.tenants.setCaps(tenantId, caps, 'test')
  await fleet.admission.setCaps(tenantId, caps)
}

const sumOf = (rows: readonly AuditRow[]) => {
  const charged = chargedToday(rows, new Date(Math.ceil(Date.now() / DAY_MS) * DAY_MS).toISOString())
  return {
    runs: charged.length,
    cpuMs: charged.reduce((total, row) => total + (row.charged_cpu_ms ?? 0), 0),
    cost: charged.reduce((total, row) => total + (row.cost ?? 0), 0),
  }
}

async function counters(tenantId: string) {
  const usage = await fleet.admission.usage(tenantId)
  return {
    runs: usage.tenant_daily.used,
    cpuMs: Math.round((usage.tenant_daily_cpu?.used ?? 0) * 1000),
    cost: usage.tenant_daily_cost?.used ?? 0,
  }
}

/** Programs that end in every way, with and without a measured CPU time. */
const programOf = (i: number): object[] => {
  const kinds: object[][] = [
    [{ usage: { cpu_ms: i % 90 } }, { sleep_ms: i % 30 }, { print: `${i}` }],
    [{ usage: { cpu_ms: 7 } }, { exit: 3 }],
    [{ sleep_ms: 15 }],
    [{ usage: { cpu_ms: 4000 } }, { oom: true }],
    [{ die: true }],
    [{ usage: { cpu_ms: 3_600_000 } }, { print: 'measured beyond its limits' }],
  ]
  return kinds[i % kinds.length] ?? []
}

describe('the counters of a tenant', () => {
  inLongTier(
    'match its audit rows after every kind of ending, cancellations and killed workers',
    async () => {
      await fleet.createTenant('mixed', { policy: NONE, caps: METERED })
      const workers = [await startWorker(), await startWorker()]
      const accepted: Accepted[] = []
      for (let i = 0; i < 240; i += 1) {
        const one = await fleet.client.enqueue(fakeRequest('mixed', programOf(i), `agent-${i % 5}`))
        accepted.push(one)
        if (i % 11 === 0) await fleet.client.cancel(one.execution_id)
      }
      for (const kills of [1, 2]) {
        await expect
          .poll(async () => (await auditRows(fleet, 'mixed')).length, { timeout: 60_000 })
          .toBeGreaterThan(60 * kills)
        await workers.shift()?.kill()
        workers.push(await startWorker())
      }
      const results = await endingsOf(fleet, accepted, RECOVERY_MS)
      const rows = await expectExactBooks(fleet, 'mixed', accepted, results)
      expect(new Set(rows.map((row) => row.ending)).size).toBeGreaterThanOrEqual(4)
      expect(Math.max(...rows.map((row) => row.charged_cpu_ms ?? 0))).toBe(30_000)
      // An attempt that called a backend costs at least the price of a call, however it ended.
      const ran = rows.filter((row) => row.quota_charged && row.backend !== null)
      expect(ran.every((row) => (row.cost ?? 0) >= 1000)).toBe(true)

      // Nothing stays reserved: exactly one more execution of 30 CPU seconds fits.
      const used = sumOf(rows)
      // A dead worker's reservation stays until its lease has expired and usage is read. Then the charge of
      // the audit row replaces it.
      await expect
        .poll(async () => counters('mixed'), { timeout: LEASE_OVER_MS, interval: 500 })
        .toEqual(used)
      await setCaps('mixed', { ...METERED, tenant_daily_cpu_seconds: Math.ceil(used.cpuMs / 1000) + 30 })
      const last = await fleet.client.enqueue(fakeRequest('mixed', [{ usage: { cpu_ms: 1 } }]))
      const [result] = await endingsOf(fleet, [last], RECOVERY_MS)
      expect(result).toMatchObject({ ending: 'ok', usage: { cpu_ms: 1, charged_cpu_ms: 1 } })
      expect(result?.caps?.tenant_daily_cpu?.used).toBe((used.cpuMs + 1) / 1000)
      await expect
        .poll(async () => counters('mixed'), { timeout: LEASE_OVER_MS })
        .toEqual(sumOf(await auditRows(fleet, 'mixed')))
      const usage = await fleet.admission.usage('mixed')
      expect([usage.tenant_daily_cpu?.reserved, usage.tenant_daily_cost?.reserved]).toEqual([0, 0])
      const today = { from: new Date(Date.now() - 86_400_000).toISOString(), to: new Date().toISOString() }
      const report = await fleet.store.usage({ tenantId: 'mixed', ...today, groupBy: 'backend' })
      expect(report.total).toMatchObject({ cpu_ms: used.cpuMs + 1 })
      await Promise.all(workers.map((worker) => worker.stop()))
    },
    300_000,
  )

  inLongTier(
    'match its audit rows again after Redis lost everything, before anything is admitted',
    async () => {
      await untilWindowLasts(DAY_MS, 60_000)
      await fleet.createTenant('forgotten', { policy: NONE, caps: { ...METERED, tenant_daily: 30 } })
      const worker = await startWorker()
      const run = async (count: number) => {
        const accepted: Accepted[] = []
        for (let i = 0; i < count; i += 1)
          accepted.push(
            await fleet.client.enqueue(fakeRequest('forgotten', [{ usage: { cpu_ms: 10 } }], `a${i % 3}`)),
          )
        return endingsOf(fleet, accepted, RECOVERY_MS)
      }
      expect((await run(20)).every((result) => result.ok)).toBe(true)
      await worker.stop()
      await fleet.changeRedis(() =>
        rm(path.join(fleet.dataDir, 'redis', 'appendonlydir'), { recursive: true }),
      )
      expect((await fleet.admission.usage('forgotten')).tenant_daily.used).toBe(0)
      // Two workers rebuild the counters at the same time.
      const workers = await Promise.all([startWorker(), startWorker()])
      const after = await run(20)
      const endings = Object.groupBy(after, (result) => result.ending)
      expect([endings.ok?.length, endings.cap_exceeded?.length]).toEqual([10, 10])
      const rows = await auditRows(fleet, 'forgotten')
      await expect.poll(async () => counters('forgotten'), { timeout: 20_000 }).toEqual(sumOf(rows))
      expect(sumOf(rows)).toMatchObject({ runs: 30, cpuMs: 300 })
      for (const agent of ['a0', 'a1', 'a2']) {
        const { agent_hourly: hour } = await fleet.admission.usage('forgotten', agent)
        const fromMs = Date.parse(hour?.resets_at ?? '') - HOUR_MS
        const inThisHour = rows.filter(
          (row) => row.agent_id === agent && row.charged_at !== null && Date.parse(row.charged_at) >= fromMs,
        )
        expect(hour?.used).toBe(inThisHour.length)
      }
      await Promise.all(workers.map((one) => one.stop()))
    },
    300_000,
  )
})

describe('a cap of CPU seconds', () => {
  inLongTier(
    'makes executions wait for reserved seconds, and refuses only what cannot fit',
    async () => {
      await untilWindowLasts(DAY_MS, 30_000)
      await fleet.createTenant('tight', { policy: NONE, caps: { ...CAPS, tenant_daily_cpu_seconds: 20 } })
      const worker = await startWorker()
      const of = (hard_timeout_ms: number, extra: object = {}) => ({
        ...fakeRequest('tight', [{ usage: { cpu_ms: 100 } }, { sleep_ms: 5 }]),
        limits: { hard_timeout_ms },
        ...extra,
      })
      // Each execution reserves 5 s of the 20. Eight slots would reserve 40 s, so some executions have to
      // wait.
      const accepted = await Promise.all(Array.from({ length: 60 }, () => fleet.client.enqueue(of(5000))))
      const results = await endingsOf(fleet, accepted, RECOVERY_MS)
      expect(Object.keys(Object.groupBy(results, (result) => result.ending))).toEqual(['ok'])
      await expect
        .poll(async () => (await fleet.admission.usage('tight')).tenant_daily_cpu, { timeout: 20_000 })
        .toMatchObject({ used: 6, reserved: 0 })
      // 14 s are left: 15 s do not fit today, 21 s do not fit on any day.
      const [large, never] = await endingsOf(
        fleet,
        [await fleet.client.enqueue(of(15_000)), await fleet.client.enqueue(of(21_000, { on_cap: 'defer' }))],
        RECOVERY_MS,
      )
      for (const refused of [large, never])
        expect(refused).toMatchObject({
          ending: 'cap_exceeded',
          error: 'SandboxCapExceeded',
          dimension: 'tenant_daily_cpu',
          caps: { tenant_daily_cpu: { used: 6, limit: 20 } },
        })
      expect(large?.error_message).toContain('more CPU time than the 14 s that are left')
      await worker.stop()
    },
    120_000,
  )
})

describe('a cap of 0', () => {
  /**
   * Enqueues many runs of one second each. Most wait, some are in the run queue, and some are claimed. They
   * last long enough for a slow machine to set the switch before their end.
   */
  async function flood(tenantId: string): Promise<Accepted[]> {
    await fleet.createTenant(tenantId, { policy: NONE, caps: CAPS })
    const accepted = await Promise.all(
      Array.from({ length: 300 }, (_, i) =>
        fleet.client.enqueue(fakeRequest(tenantId, [{ sleep_ms: 1000 }], `agent-${i % 3}`)),
      ),
    )
    await expect
      .poll(async () => (await fleet.admission.usage(tenantId)).tenant_daily.used, {
        timeout: 60_000,
        interval: 5,
      })
      .toBeGreaterThan(10)
    return accepted
  }

  const lastCharge = async (tenantId: string): Promise<number> =>
    Math.max(...(await auditRows(fleet, tenantId)).map((row) => Date.parse(row.charged_at ?? '') || 0))

  it('stops the next claim at once if it is set through the API', async () => {
    const workers = await Promise.all([startWorker(), startWorker()])
    const accepted = await flood('switched')
    await setCaps('switched', { ...CAPS, tenant_daily: 0 })
    const liveAtMs = Date.now()
    const results = await endingsOf(fleet, accepted, RECOVERY_MS)
    const refused = results.filter((result) => result.ending === 'cap_exceeded')
    expect(refused.length).toBeGreaterThan(100)
    expect(refused.every((result) => result.kill_switch === true)).toBe(true)
    await expectExactBooks(fleet, 'switched', accepted, results)
    // Redis and this process share one clock, so no claim may be younger than the switch.
    expect(await lastCharge('switched')).toBeLessThanOrEqual(liveAtMs)
    await Promise.all(workers.map((worker) => worker.stop()))
  }, 300_000)

  inLongTier(
    'stops the next claim within a second if it is set with SQL',
    async () => {
      const worker = await startWorker()
      const accepted = await flood('by-sql')
      const client = new pg.Client({ connectionString: fleet.databaseUrl })
      await client.connect()
      await client.query(`update tenants set tenant_daily = 0 where tenant_id = 'by-sql'`)
      const committedAtMs = Date.now()
      await client.end()
      const results = await endingsOf(fleet, accepted, RECOVERY_MS)
      expect(results.filter((result) => result.kill_switch === true).length).toBeGreaterThan(100)
      // The policy cache lasts 1,000 ms (policy-cache.test.ts checks that exactly). From there to the charge
      // a busy machine takes seconds.
      expect(await lastCharge('by-sql')).toBeLessThanOrEqual(committedAtMs + 5000)
      await worker.stop()
    },
    300_000,
  )
})
