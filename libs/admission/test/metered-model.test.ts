/**
 * Any interleaving of attempts with reservations is counted exactly: clients that admit, record, settle,
 * refund or die at any step, other clients that end a dead client's attempts, and servers that restart or
 * lose everything.
 *
 *   admit ──► running ──keepCharge, record──► recorded ──settle──► over
 *                │ └─ refund ─► over    └─ dies ─► nobody continues it
 *                └─ dies ─► another client records and settles it later, but not after a loss of everything
 */
import { DEFAULT_TENANT_CAPS, newExecutionId } from '@cofferdam/contract'
import { isolatedRedis, scheduleSeed, type TestServer } from '@cofferdam/embedded/testing'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Admitted, AttemptKey, ChargedCounts, Settlement } from '../src/index.ts'
import { LONG_WINDOWS, openAdmission, type Opened } from './open-admission.ts'

const LIMIT = { cpuMs: 100_000, cost: 5000 }
const CAPS = {
  ...DEFAULT_TENANT_CAPS,
  tenant_daily_cpu_seconds: 100,
  tenant_daily_cost: 5000,
  concurrency: 1000,
}

let server: TestServer
let open: Opened
const rowsOf = new Map<string, Map<string, Settlement>>()
const sum = (all: Iterable<Settlement>): Settlement => {
  const total = { cpuMs: 0, cost: 0 }
  for (const one of all) {
    total.cpuMs += one.cpuMs
    total.cost += one.cost
  }
  return total
}
const countCharged = async (
  tenantId: string,
  _at: number,
  unsettled: readonly { executionId: string; attempt: number }[],
): Promise<ChargedCounts> => {
  const rows = rowsOf.get(tenantId) ?? new Map<string, Settlement>()
  return {
    day: { bucket: 0, count: rows.size, ...sum(rows.values()) },
    hours: [{ agentId: 'a', bucket: 1, count: rows.size }],
    ended: unsettled.filter((one) => rows.has(one.executionId)).map((one) => ({ ...one })) as never,
  }
}
beforeAll(async () => {
  server = await isolatedRedis()
  open = openAdmission(server.url, { ...LONG_WINDOWS, countCharged, leaseMs: 3_600_000 })
})
afterAll(async () => {
  open.close()
  await server.stop()
})

/** What Redis holds, read without the library. */
async function seen(tenantId: string) {
  const [used, reserved, usedCost, reservedCost] = await open.redis.hmget(
    `cfd:{${tenantId}}:day`,
    'cu',
    'cr',
    'mu',
    'mr',
  )
  return {
    used: { cpuMs: Number(used), cost: Number(usedCost) },
    reserved: { cpuMs: Number(reserved), cost: Number(reservedCost) },
    open: await open.redis.hlen(`cfd:{${tenantId}}:open`),
  }
}

interface Run {
  key: AttemptKey
  most: Settlement
  /** Null if the owner is dead. */
  admitted: Admitted | null
  charged: Settlement
}

/** The `serverRun` of attempts that were admitted before everything was lost. */
const FORGOTTEN = 'a life before the loss'

const stepArb = fc.record({
  do: fc.constantFrom(
    'admit',
    'admit',
    'admit',
    'record',
    'settle',
    'settle',
    'refund',
    'die',
    'end',
    'life',
    'loss',
  ),
  who: fc.nat(30),
  cpuMs: fc.nat(40_000),
  cost: fc.nat(2000),
  share: fc.nat(100),
})

describe('reservations', () => {
  it('and use are exact after any sequence of admissions, endings, refunds, deaths and losses', async () => {
    let played = 0
    await fc.assert(
      fc.asyncProperty(fc.array(stepArb, { minLength: 5, maxLength: 60 }), async (steps) => {
        const tenantId = `model-${++played}`
        const rows = new Map<string, Settlement>()
        rowsOf.set(tenantId, rows)
        await open.admission.setCaps(tenantId, CAPS)
        const running: Run[] = []
        /** Recorded, not settled. */
        let recorded: Run[] = []
        /** Attempts of dead owners, running or recorded. */
        let orphans: Run[] = []
        /**
         * Charges of the attempts that were running when everything was lost. Redis adds them even beyond the
         * limit.
         */
        const unreserved = { cpuMs: 0, cost: 0 }
        const record = async (run: Run) => {
          if (rows.has(run.key.executionId)) return
          if (run.admitted !== null) await open.admission.keepCharge(run.admitted)
          rows.set(run.key.executionId, run.charged)
        }
        const finish = (run: Run) =>
          run.admitted === null
            ? open.admission.settle(run.key, run.charged)
            : open.admission.release(run.admitted.lease, { settled: true, settlement: run.charged })
        for (const { do: what, who, cpuMs, cost, share } of steps) {
          const pick = (from: Run[]): Run | undefined => from.splice(who % Math.max(1, from.length), 1)[0]
          if (what === 'admit') {
            const key = { tenantId, agentId: 'a', executionId: newExecutionId(), attempt: 1 }
            const most = { cpuMs, cost }
            const before = await seen(tenantId)
            const fits = (field: 'cpuMs' | 'cost') =>
              before.used[field] + before.reserved[field] + most[field] <= LIMIT[field]
            const marker = await open.redis.get(`cfd:{${tenantId}}:seeded`)
            const marked = marker !== null && marker !== 'another life'
            const verdict = await open.admission.admit(key, most)
            // The values above decide what is admitted only if the counters are already restored.
            if (marked && verdict.admitted) expect(fits('cpuMs') && fits('cost')).toBe(true)
            if (verdict.admitted) {
              const charged = {
                cpuMs: Math.floor((cpuMs * share) / 100),
                cost: Math.floor((cost * share) / 100),
              }
              running.push({ key, most, admitted: verdict, charged })
            }
          } else if (what === 'record') {
            const run = pick(running)
            if (run === undefined) continue
            await record(run)
            recorded.push(run)
          } else if (what === 'settle') {
            const run = pick(recorded)
            if (run !== undefined) await finish(run)
          } else if (what === 'refund') {
            const run = pick(running)
            if (run !== undefined) await open.admission.refund(run.key, run.admitted?.lease)
          } else if (what === 'die') {
            const run = pick(who % 2 === 0 ? running : recorded)
            if (run === undefined) continue
            if (run.admitted?.serverRun !== FORGOTTEN) orphans.push({ ...run, admitted: null })
            // Admitted before a loss: nobody continues the attempt if it has no row. If it has one, it still
            // has to be settled, because no recount in this model would find its reservation.
            else if (rows.has(run.key.executionId)) recorded.push(run)
          } else if (what === 'end') {
            const run = pick(orphans)
            if (run === undefined) continue
            await record(run)
            await finish(run)
          } else if (what === 'life') {
            await open.redis.set(`cfd:{${tenantId}}:seeded`, 'another life')
          } else {
            // Redis loses everything. Running attempts continue and are counted again. Attempts of dead
            // owners are forgotten.
            for (const run of running) {
              if (run.admitted === null || run.admitted.serverRun === FORGOTTEN) continue
              run.admitted = { ...run.admitted, serverRun: FORGOTTEN }
              unreserved.cpuMs += run.charged.cpuMs
              unreserved.cost += run.charged.cost
            }
            orphans = []
            await open.redis.del(await open.redis.keys(`cfd:{${tenantId}}:*`))
            await open.admission.setCaps(tenantId, CAPS)
          }
          const now = await seen(tenantId)
          expect(now.used.cpuMs + now.reserved.cpuMs).toBeLessThanOrEqual(LIMIT.cpuMs + unreserved.cpuMs)
          expect(now.used.cost + now.reserved.cost).toBeLessThanOrEqual(LIMIT.cost + unreserved.cost)
          expect(Math.min(now.reserved.cpuMs, now.reserved.cost)).toBeGreaterThanOrEqual(0)
        }
        // At rest: every attempt is ended, and the next admission restores the counters if necessary.
        for (const run of [...running, ...orphans, ...recorded]) {
          await record(run)
          await finish(run)
        }
        recorded = []
        const last = { tenantId, agentId: 'a', executionId: newExecutionId(), attempt: 1 }
        const verdict = await open.admission.admit(last, { cpuMs: 0, cost: 0 })
        expect(verdict).toMatchObject({ admitted: true })
        await open.admission.settle(last, { cpuMs: 0, cost: 0 })
        expect(await seen(tenantId)).toEqual({
          used: sum(rows.values()),
          reserved: { cpuMs: 0, cost: 0 },
          open: 0,
        })
        const runs = ['day', 'hr:a'].map((window) => open.redis.hget(`cfd:{${tenantId}}:${window}`, 'n'))
        // `last` is counted but has no row.
        expect((await Promise.all(runs)).map(Number)).toEqual([rows.size + 1, rows.size + 1])
      }),
      { numRuns: 80, seed: scheduleSeed() },
    )
  }, 240_000)

  it('of many clients at once never exceed the caps together with use, and add up', async () => {
    const tenantId = 'crowd'
    const rows = new Map<string, Settlement>()
    rowsOf.set(tenantId, rows)
    const opens = Array.from({ length: 16 }, () =>
      openAdmission(server.url, { ...LONG_WINDOWS, countCharged, leaseMs: 3_600_000 }),
    )
    await open.admission.setCaps(tenantId, { ...CAPS, tenant_daily: 100_000, agent_hourly: 100_000 })
    const orphans: Run[] = []
    const refused = new Set<string>()
    let over = false
    const watcher = (async () => {
      while (!over) {
        const { used, reserved } = await seen(tenantId)
        expect(used.cpuMs + reserved.cpuMs).toBeLessThanOrEqual(LIMIT.cpuMs)
        expect(used.cost + reserved.cost).toBeLessThanOrEqual(LIMIT.cost)
      }
    })()
    await Promise.all(
      opens.map(async ({ admission }, client) => {
        for (let i = 0; i < 60; i++) {
          const turn = client * 7919 + i * 104_729
          const key: AttemptKey = {
            tenantId,
            agentId: `a${client}`,
            executionId: newExecutionId(),
            attempt: 1,
          }
          const most = { cpuMs: 500 + (turn % 9000), cost: 10 + (turn % 400) }
          const verdict = await admission.admit(key, most)
          if (!verdict.admitted) {
            refused.add(`${verdict.dimension}${verdict.held === true ? ' held' : ''}`)
            continue
          }
          const charged = { cpuMs: turn % 400, cost: turn % 10 }
          if (turn % 5 === 0) await admission.refund(key, verdict.lease)
          else if (turn % 7 === 0) orphans.push({ key, most, admitted: null, charged })
          else {
            rows.set(key.executionId, charged)
            await admission.release(verdict.lease, { settled: true, settlement: charged })
          }
        }
      }),
    )
    over = true
    await watcher
    expect([...refused].some((dimension) => dimension.startsWith('tenant_daily_c'))).toBe(true)
    // Two clients end each dead client's attempt, and it counts once.
    for (const { key, charged } of orphans) {
      rows.set(key.executionId, charged)
      await Promise.all(opens.slice(0, 2).map(({ admission }) => admission.settle(key, charged)))
    }
    expect(await seen(tenantId)).toEqual({
      used: sum(rows.values()),
      reserved: { cpuMs: 0, cost: 0 },
      open: 0,
    })
    expect(orphans.length).toBeGreaterThan(5)
    for (const each of opens) each.close()
  })
})
