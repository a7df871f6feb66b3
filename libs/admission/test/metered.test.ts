/** Caps on CPU and cost are reserved at admission, settled at the end, and exact in all cases. */
import { DEFAULT_TENANT_CAPS, type TenantCaps } from '@cofferdam/contract'
import { isolatedRedis, type TestServer } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AdmissionDeps, AttemptKey, ChargedCounts, Settlement } from '../src/index.ts'
import { attemptOf, dump, LONG_WINDOWS, openAdmission, type Opened } from './open-admission.ts'

let server: TestServer
beforeAll(async () => {
  server = await isolatedRedis()
})
afterAll(() => server.stop())

const caps = (change: Partial<TenantCaps>): TenantCaps => ({ ...DEFAULT_TENANT_CAPS, ...change })

/** Audit rows as a list of charges, counted as the store does. */
class Rows {
  readonly charged = new Map<string, Settlement>()
  readonly count: AdmissionDeps['countCharged'] = async (_tenant, _at, unsettled): Promise<ChargedCounts> => {
    const rows = [...this.charged.values()]
    return {
      day: {
        bucket: 0,
        count: rows.length,
        cpuMs: rows.reduce((sum, row) => sum + row.cpuMs, 0),
        cost: rows.reduce((sum, row) => sum + row.cost, 0),
      },
      hours: [],
      ended: unsettled.filter((one) => this.charged.has(one.executionId)),
    }
  }
}

async function using(
  work: (open: Opened, rows: Rows) => Promise<void>,
  deps: Partial<AdmissionDeps> = {},
): Promise<void> {
  const rows = new Rows()
  const open = openAdmission(server.url, { ...LONG_WINDOWS, countCharged: rows.count, ...deps })
  try {
    await work(open, rows)
  } finally {
    open.close()
  }
}

const admitted = async (open: Opened, key: AttemptKey, most: Settlement) => {
  const verdict = await open.admission.admit(key, most)
  if (!verdict.admitted) throw new Error(`refused: ${verdict.dimension}`)
  return verdict
}

describe('a cap of CPU seconds', () => {
  it('reserves the most that an attempt may use, then counts its use', () =>
    using(async (open) => {
      await open.admission.setCaps('cpu', caps({ tenant_daily_cpu_seconds: 60 }))
      const first = await admitted(open, attemptOf('cpu'), { cpuMs: 30_000, cost: 0 })
      expect((await open.admission.usage('cpu')).tenant_daily_cpu).toMatchObject({
        used: 0,
        reserved: 30,
        limit: 60,
      })
      await open.admission.release(first.lease, { settled: true, settlement: { cpuMs: 1250, cost: 0 } })
      expect((await open.admission.usage('cpu')).tenant_daily_cpu).toMatchObject({ used: 1.25, reserved: 0 })
      const second = await admitted(open, attemptOf('cpu'), { cpuMs: 1, cost: 0 })
      expect(second.caps.tenant_daily_cpu).toMatchObject({ used: 1.25, limit: 60 })
      expect(second.caps.tenant_daily_cost).toBeUndefined()
    }))

  it('delays an attempt that does not fit beside reservations, and refuses one that cannot fit', () =>
    using(async (open) => {
      await open.admission.setCaps('fits', caps({ tenant_daily_cpu_seconds: 60 }))
      const running = await admitted(open, attemptOf('fits'), { cpuMs: 40_000, cost: 0 })
      expect(await open.admission.admit(attemptOf('fits'), { cpuMs: 20_001, cost: 0 })).toMatchObject({
        admitted: false,
        dimension: 'tenant_daily_cpu',
        held: true,
        killSwitch: false,
      })
      await open.admission.release(running.lease, { settled: true, settlement: { cpuMs: 40_000, cost: 0 } })
      const refused = await open.admission.admit(attemptOf('fits'), { cpuMs: 20_001, cost: 0 })
      expect(refused).toMatchObject({ admitted: false, dimension: 'tenant_daily_cpu', resetsAtMs: 4e12 })
      expect(refused).not.toHaveProperty('held')
      await admitted(open, attemptOf('fits'), { cpuMs: 20_000, cost: 0 })
    }))

  it('of 0 is a kill switch, also for an attempt that was charged before', () =>
    using(async (open) => {
      const key = attemptOf('off')
      await admitted(open, key, { cpuMs: 1, cost: 1 })
      for (const [change, dimension] of [
        [{ tenant_daily_cpu_seconds: 0 }, 'tenant_daily_cpu'],
        [{ tenant_daily_cost: 0 }, 'tenant_daily_cost'],
      ] as const) {
        await open.admission.setCaps('off', caps(change))
        expect(await open.admission.admit(key, { cpuMs: 0, cost: 0 })).toMatchObject({
          dimension,
          killSwitch: true,
        })
      }
    }))

  it('can be raised, lowered and removed while attempts run', () =>
    using(async (open) => {
      await open.admission.setCaps('live', caps({ tenant_daily_cpu_seconds: 10 }))
      await admitted(open, attemptOf('live'), { cpuMs: 10_000, cost: 0 })
      const next = () => open.admission.admit(attemptOf('live'), { cpuMs: 10_000, cost: 0 })
      expect(await next()).toMatchObject({ admitted: false, held: true })
      await open.admission.setCaps('live', caps({ tenant_daily_cpu_seconds: 20 }))
      expect(await next()).toMatchObject({ admitted: true })
      await open.admission.setCaps('live', caps({ tenant_daily_cpu_seconds: 5 }))
      expect(await next()).toMatchObject({ admitted: false, dimension: 'tenant_daily_cpu' })
      await open.admission.setCaps('live', caps({}))
      expect(await next()).toMatchObject({ admitted: true })
    }))
})

describe('a cap of cost', () => {
  it('counts micro-units exactly up to a billion units', () =>
    using(async (open) => {
      const limit = 1_000_000_000_000_000
      await open.admission.setCaps('rich', caps({ tenant_daily_cost: limit }))
      const one = await admitted(open, attemptOf('rich'), { cpuMs: 0, cost: limit - 1 })
      await open.admission.release(one.lease, { settled: true, settlement: { cpuMs: 0, cost: limit - 3 } })
      expect(await open.admission.admit(attemptOf('rich'), { cpuMs: 0, cost: 4 })).toMatchObject({
        dimension: 'tenant_daily_cost',
        caps: { tenant_daily_cost: { used: limit - 3, limit } },
      })
      await admitted(open, attemptOf('rich'), { cpuMs: 0, cost: 3 })
    }))
})

describe('a reservation', () => {
  it('is settled once, by the first caller', () =>
    using(async (open) => {
      await open.admission.setCaps('once', caps({ tenant_daily_cost: 1000 }))
      const key = attemptOf('once')
      const { lease } = await admitted(open, key, { cpuMs: 500, cost: 100 })
      await open.admission.settle(key, { cpuMs: 400, cost: 40 })
      await open.admission.settle(key, { cpuMs: 400, cost: 40 })
      await open.admission.release(lease, { settled: true, settlement: { cpuMs: 1, cost: 1 } })
      const usage = await open.admission.usage('once')
      expect(usage.tenant_daily_cost).toMatchObject({ used: 40, reserved: 0 })
    }))

  it('stays until it is settled, even after the lease has expired', () =>
    using(async (open) => {
      await open.admission.setCaps('dead', caps({ tenant_daily_cost: 1000 }))
      const key = attemptOf('dead')
      const { lease } = await admitted(open, key, { cpuMs: 0, cost: 600 })
      await open.admission.release(lease)
      expect((await open.admission.usage('dead')).tenant_daily_cost).toMatchObject({ used: 0, reserved: 600 })
      await open.admission.settle(key, { cpuMs: 0, cost: 600 })
      expect((await open.admission.usage('dead')).tenant_daily_cost).toMatchObject({ used: 600, reserved: 0 })
    }))

  it('ends with a refund, and cannot be settled after it', () =>
    using(async (open) => {
      await open.admission.setCaps('back', caps({ tenant_daily_cost: 1000 }))
      const key = attemptOf('back')
      const { lease } = await admitted(open, key, { cpuMs: 0, cost: 600 })
      expect(await open.admission.refund(key, lease)).toBe(true)
      await open.admission.release(lease, { settled: true, settlement: { cpuMs: 0, cost: 5 } })
      expect((await open.admission.usage('back')).tenant_daily_cost).toMatchObject({ used: 0, reserved: 0 })
    }))

  it('is not settled by an owner that lost the attempt', () =>
    using(
      async (open) => {
        await open.admission.setCaps('stale', caps({ tenant_daily_cost: 1000 }))
        const key = attemptOf('stale')
        const old = await admitted(open, key, { cpuMs: 0, cost: 600 })
        const owner = await admitted(open, key, { cpuMs: 0, cost: 600 })
        expect(owner.charged).toBe('before')
        await open.admission.release(old.lease, { settled: true, settlement: { cpuMs: 0, cost: 1 } })
        expect((await open.admission.usage('stale')).tenant_daily_cost).toMatchObject({ reserved: 600 })
        await open.admission.release(owner.lease, { settled: true, settlement: { cpuMs: 0, cost: 7 } })
        expect((await open.admission.usage('stale')).tenant_daily_cost).toMatchObject({
          used: 7,
          reserved: 0,
        })
      },
      { leaseMs: 3_600_000 },
    ))

  it('changes nothing in the next day', () =>
    using(
      async (open) => {
        await open.admission.setCaps('days', caps({ tenant_daily_cost: 1000 }))
        const { lease, caps: use } = await admitted(open, attemptOf('days'), { cpuMs: 0, cost: 600 })
        const resetsAtMs = Date.parse(use.tenant_daily.resets_at)
        await expect
          .poll(async () => Number((await open.redis.time())[0]) * 1000 >= resetsAtMs, {
            timeout: 20_000,
          })
          .toBe(true)
        const next = await admitted(open, attemptOf('days'), { cpuMs: 0, cost: 100 })
        await open.admission.release(lease, { settled: true, settlement: { cpuMs: 0, cost: 600 } })
        const usage = await open.admission.usage('days')
        expect(usage.tenant_daily_cost).toMatchObject({ used: 0, reserved: 100 })
        await open.admission.release(next.lease)
      },
      {
        dayMs: 4000,
        hourMs: 2000,
        countCharged: async (_tenant, atMs) => ({
          day: { bucket: Math.floor(atMs / 4000), count: 0 },
          hours: [],
        }),
      },
    ))

  it('is found when its worker died between the ending and the settlement', () =>
    using(async (open, rows) => {
      await open.admission.setCaps('gap', caps({ tenant_daily_cost: 1000 }))
      const key = attemptOf('gap')
      await admitted(open, key, { cpuMs: 0, cost: 900 })
      rows.charged.set(key.executionId, { cpuMs: 0, cost: 30 })
      // The next attempts are held until the lease of `key` has expired and the rows have been read.
      const next = () => open.admission.admit(attemptOf('gap'), { cpuMs: 0, cost: 900 })
      expect(await next()).toMatchObject({ held: true })
      expect(await open.redis.zadd('cfd:{gap}:lease', 'XX', 'CH', 1, `${key.executionId}:1`)).toBe(1)
      await expect.poll(next, { timeout: 20_000, interval: 50 }).toMatchObject({ admitted: true })
      expect((await open.admission.usage('gap')).tenant_daily_cost).toMatchObject({
        used: 30,
        reserved: 900,
      })
    }))

  it('is found by a reading of the usage if no admission follows', () =>
    using(async (open, rows) => {
      await open.admission.setCaps('seen', caps({ tenant_daily_cost: 1000 }))
      const key = attemptOf('seen')
      await admitted(open, key, { cpuMs: 0, cost: 900 })
      rows.charged.set(key.executionId, { cpuMs: 0, cost: 30 })
      const costNow = async () => (await open.admission.usage('seen')).tenant_daily_cost
      expect(await costNow()).toMatchObject({ used: 0, reserved: 900 })
      expect(await open.redis.zadd('cfd:{seen}:lease', 'XX', 'CH', 1, `${key.executionId}:1`)).toBe(1)
      expect(await costNow()).toMatchObject({ used: 30, reserved: 0 })
    }))

  it('is shown as it was counted while the audit rows cannot be read', () => {
    let rowsAreAway = false
    return using(
      async (open) => {
        await open.admission.setCaps('away', caps({ tenant_daily_cost: 1000 }))
        const key = attemptOf('away')
        await admitted(open, key, { cpuMs: 0, cost: 900 })
        rowsAreAway = true
        await open.redis.zadd('cfd:{away}:lease', 'XX', 'CH', 1, `${key.executionId}:1`)
        const usage = await open.admission.usage('away')
        expect(usage).toMatchObject({ tenant_daily_cost: { used: 0, reserved: 900 }, seeded: false })
      },
      {
        countCharged: async () => {
          if (rowsAreAway) throw new Error('Postgres is away')
          return { day: { bucket: 0, count: 0 }, hours: [] }
        },
      },
    )
  })
})

describe('a tenant without these caps', () => {
  it('has no additional key or field', () =>
    using(async (open) => {
      const { lease } = await admitted(open, attemptOf('plain'), { cpuMs: 30_000, cost: 5 })
      await open.admission.release(lease, { settled: true, settlement: { cpuMs: 10, cost: 1 } })
      const left = await dump(open.redis, 'plain')
      expect(Object.keys(left).map((key) => key.replace(/charge:.*/, 'charge'))).toEqual([
        'cfd:{plain}:charge',
        'cfd:{plain}:day',
        'cfd:{plain}:hr:agent-1',
        'cfd:{plain}:seeded',
      ])
      expect(left['cfd:{plain}:day']).toEqual({ b: '0', n: '1' })
    }))

  it('is counted from its rows and running attempts when it gets such a cap during the day', () =>
    using(async (open, rows) => {
      const [recorded, running, recordedNow] = [attemptOf('late'), attemptOf('late'), attemptOf('late')]
      const leases = await Promise.all(
        [recorded, running, recordedNow].map((key) => admitted(open, key, { cpuMs: 9, cost: 9 })),
      )
      rows.charged.set(recorded.executionId, { cpuMs: 5, cost: 50 })
      await open.admission.release(leases[0]!.lease, { settled: true, settlement: { cpuMs: 5, cost: 50 } })
      // Recorded, but its worker has not released it yet.
      rows.charged.set(recordedNow.executionId, { cpuMs: 3, cost: 30 })
      await open.admission.setCaps('late', caps({ tenant_daily_cost: 1000 }))
      await admitted(open, attemptOf('late'), { cpuMs: 1, cost: 10 })
      expect((await open.admission.usage('late')).tenant_daily_cost).toMatchObject({ used: 80, reserved: 10 })
      await open.admission.release(leases[2]!.lease, { settled: true, settlement: { cpuMs: 3, cost: 30 } })
      await open.admission.release(leases[1]!.lease, { settled: true, settlement: { cpuMs: 2, cost: 20 } })
      expect((await open.admission.usage('late')).tenant_daily_cost).toMatchObject({
        used: 100,
        reserved: 10,
      })
    }))

  it('is counted again if an attempt that the count missed was settled meanwhile', async () => {
    let open: Opened | null = null
    let counts = 0
    const rows = new Rows()
    const key = attemptOf('meanwhile')
    let settle = async () => {}
    await using(
      async (opened) => {
        open = opened
        const { lease } = await admitted(open, key, { cpuMs: 9, cost: 9 })
        settle = async () => {
          rows.charged.set(key.executionId, { cpuMs: 4, cost: 40 })
          await opened.admission.release(lease, { settled: true, settlement: { cpuMs: 4, cost: 40 } })
        }
        await open.admission.setCaps('meanwhile', caps({ tenant_daily_cost: 1000 }))
        counts = 0
        await admitted(open, attemptOf('meanwhile'), { cpuMs: 1, cost: 10 })
        expect(counts).toBe(2)
        expect((await open.admission.usage('meanwhile')).tenant_daily_cost).toMatchObject({ used: 40 })
      },
      {
        countCharged: async (...asked) => {
          const seen = await rows.count(...asked)
          // The attempt ends between the count and its use.
          if (counts++ === 0) await settle()
          return seen
        },
      },
    )
  })
})

describe('after Redis lost data', () => {
  it('continues with the sums of the audit rows, and counts nothing twice', () =>
    using(async (open, rows) => {
      await open.admission.setCaps('lost', caps({ tenant_daily_cost: 1000 }))
      const [ended, running] = [attemptOf('lost'), attemptOf('lost')]
      const leases = await Promise.all(
        [ended, running].map((key) => admitted(open, key, { cpuMs: 0, cost: 300 })),
      )
      rows.charged.set(ended.executionId, { cpuMs: 0, cost: 200 })
      // As after a restart: all data is there, but the marker names another run of the server.
      await open.redis.set('cfd:{lost}:seeded', 'another')
      const next = await admitted(open, attemptOf('lost'), { cpuMs: 0, cost: 1 })
      expect((await open.admission.usage('lost')).tenant_daily_cost).toMatchObject({
        used: 200,
        reserved: 301,
      })
      await open.admission.release(leases[0]!.lease, { settled: true, settlement: { cpuMs: 0, cost: 200 } })
      await open.admission.release(leases[1]!.lease, { settled: true, settlement: { cpuMs: 0, cost: 100 } })
      await open.admission.release(next.lease, { settled: true, settlement: { cpuMs: 0, cost: 1 } })
      expect((await open.admission.usage('lost')).tenant_daily_cost).toMatchObject({ used: 301, reserved: 0 })
      // As after a loss of all data.
      rows.charged.set(running.executionId, { cpuMs: 0, cost: 100 })
      await open.redis.del(await open.redis.keys('cfd:{lost}:*'))
      await open.admission.setCaps('lost', caps({ tenant_daily_cost: 1000 }))
      expect(await open.admission.admit(attemptOf('lost'), { cpuMs: 0, cost: 701 })).toMatchObject({
        admitted: false,
        dimension: 'tenant_daily_cost',
      })
    }))
})
