import { DEFAULT_TENANT_CAPS } from '@cofferdam/contract'
import { startRedis } from '@cofferdam/embedded'
import { isolatedRedis, type TestServer } from '@cofferdam/embedded/testing'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { keys, LEDGER_TTL_MS, type AttemptName, type ChargedCounts } from '../src/index.ts'
import { attemptOf, dump, LONG_WINDOWS, openAdmission } from './open-admission.ts'

/** Counts for the windows that LONG_WINDOWS has until 2033: day 0 and hour 1. */
const counts = (day: number, hours: Record<string, number> = {}): ChargedCounts => ({
  day: { bucket: 0, count: day },
  hours: Object.entries(hours).map(([agentId, count]) => ({ agentId, bucket: 1, count })),
})

let server: TestServer
beforeAll(async () => {
  server = await isolatedRedis()
})
afterAll(() => server.stop())

describe('seeding', () => {
  it('starts from the audit rows, which concurrent admissions read once', async () => {
    const countCharged = vi.fn(async () => counts(41, { 'agent-1': 7, other: 9 }))
    const open = openAdmission(server.url, { ...LONG_WINDOWS, countCharged })
    const verdicts = await Promise.all(
      Array.from({ length: 50 }, () => open.admission.admit(attemptOf('many'))),
    )
    expect(verdicts.every((v) => v.admitted)).toBe(true)
    expect(countCharged).toHaveBeenCalledTimes(1)
    expect(countCharged).toHaveBeenCalledWith('many', expect.closeTo(Date.now(), -5), [])
    const usage = await open.admission.usage('many', 'other')
    expect(usage).toMatchObject({ tenant_daily: { used: 91 }, agent_hourly: { used: 9 }, seeded: true })
    expect((await open.admission.usage('many', 'agent-1')).agent_hourly?.used).toBe(57)
    await open.admission.admit(attemptOf('many'))
    expect(countCharged).toHaveBeenCalledTimes(1)
    open.close()
  })

  it('is not restarted when another worker sets the same caps', async () => {
    const caps = { ...DEFAULT_TENANT_CAPS, tenant_daily: 500 }
    let setter: ReturnType<typeof openAdmission> | null = null
    // While the rows are counted, another worker sets the same caps again, each time.
    const countCharged = vi.fn(async () => {
      await setter?.admission.setCaps('starting', caps)
      return counts(0)
    })
    const open = openAdmission(server.url, { ...LONG_WINDOWS, countCharged, loadCaps: async () => caps })
    setter = openAdmission(server.url, LONG_WINDOWS)
    await setter.admission.setCaps('starting', caps)
    expect(await open.admission.admit(attemptOf('starting'))).toMatchObject({
      admitted: true,
      caps: { tenant_daily: { used: 1, limit: 500 } },
    })
    expect(countCharged).toHaveBeenCalledTimes(1)
    open.close()
    setter.close()
  })

  it('restores caps and kill switch from Postgres', async () => {
    const open = openAdmission(server.url, {
      ...LONG_WINDOWS,
      loadCaps: async (tenant) =>
        tenant === 'stopped' ? { ...DEFAULT_TENANT_CAPS, tenant_daily: 0, agents: { a: 3 } } : null,
    })
    expect(await open.admission.admit(attemptOf('stopped'))).toMatchObject({
      admitted: false,
      dimension: 'tenant_daily',
      killSwitch: true,
    })
    expect(await open.admission.getCaps('stopped')).toMatchObject({ tenant_daily: 0, agents: { a: 3 } })
    expect((await open.admission.admit(attemptOf('plain'))).admitted).toBe(true)
    open.close()
  })

  it('refuses while the audit rows cannot be counted, and then admits', async () => {
    let away = true
    const countCharged = vi.fn(async () => {
      if (away) throw new Error('Postgres is away')
      return counts(3)
    })
    const open = openAdmission(server.url, { ...LONG_WINDOWS, countCharged })
    expect(await open.admission.admit(attemptOf('pg'))).toMatchObject({
      admitted: false,
      dimension: 'unknown',
    })
    expect(await dump(open.redis, 'pg')).toEqual({})
    away = false
    expect(await open.admission.admit(attemptOf('pg'))).toMatchObject({
      admitted: true,
      caps: { tenant_daily: { used: 4 } },
    })
    away = true
    expect((await open.admission.admit(attemptOf('pg'))).admitted).toBe(true)
    open.close()
  })

  it('refuses within its time limit when counting hangs or counts another window', async () => {
    const hanging = openAdmission(server.url, {
      ...LONG_WINDOWS,
      timeoutMs: 100,
      countCharged: () => new Promise(() => {}),
    })
    expect(await hanging.admission.admit(attemptOf('hangs'))).toMatchObject({ dimension: 'unknown' })
    hanging.close()
    const skewed = openAdmission(server.url, {
      ...LONG_WINDOWS,
      countCharged: async () => ({ day: { bucket: 9, count: 1 }, hours: [] }),
    })
    expect(await skewed.admission.admit(attemptOf('skewed'))).toMatchObject({ dimension: 'unknown' })
    skewed.close()
  })

  it('handles more agents than fit into one call, before any charge', async () => {
    const hours = Object.fromEntries(Array.from({ length: 1203 }, (_, i) => [`agent-${i}`, i + 1]))
    const open = openAdmission(server.url, { ...LONG_WINDOWS, countCharged: async () => counts(9, hours) })
    expect(await open.admission.admit(attemptOf('crowd', 'agent-9'))).toMatchObject({ admitted: true })
    for (const i of [0, 499, 500, 999, 1000, 1202])
      expect((await open.admission.usage('crowd', `agent-${i}`)).agent_hourly?.used).toBe(i + 1)
    open.close()
  })

  it('never overwrites caps that were set while older ones were read', async () => {
    const setter = openAdmission(server.url, LONG_WINDOWS)
    let reads = 0
    const open = openAdmission(server.url, {
      ...LONG_WINDOWS,
      loadCaps: async () => {
        // The caps change during the first read, which still returns the old caps.
        if (reads++ > 0) return { ...DEFAULT_TENANT_CAPS, tenant_daily: 5 }
        await setter.admission.setCaps('racing', { ...DEFAULT_TENANT_CAPS, tenant_daily: 5 })
        return { ...DEFAULT_TENANT_CAPS, tenant_daily: 900 }
      },
    })
    expect(await open.admission.admit(attemptOf('racing'))).toMatchObject({
      admitted: true,
      caps: { tenant_daily: { used: 1, limit: 5 } },
    })
    expect(reads).toBe(2)
    for (const each of [open, setter]) each.close()
  })

  it('counts once when several processes seed the same tenant', async () => {
    const opens = Array.from({ length: 6 }, () =>
      openAdmission(server.url, { ...LONG_WINDOWS, countCharged: async () => counts(10) }),
    )
    await Promise.all(
      opens.flatMap((open) => Array.from({ length: 5 }, () => open.admission.admit(attemptOf('shared')))),
    )
    expect((await opens[0]!.admission.usage('shared')).tenant_daily.used).toBe(40)
    for (const open of opens) open.close()
  })
})

describe('after Redis lost data', () => {
  it('continues with the counts of the audit rows', async () => {
    const rows: string[] = []
    const open = openAdmission(server.url, { ...LONG_WINDOWS, countCharged: async () => counts(rows.length) })
    const caps = { ...DEFAULT_TENANT_CAPS, tenant_daily: 10 }
    await open.admission.setCaps('lost', caps)
    for (let i = 0; i < 6; i++) {
      const key = attemptOf('lost')
      if ((await open.admission.admit(key)).admitted) rows.push(key.executionId)
    }
    await open.redis.del(await open.redis.keys('cfd:{lost}:*'))
    await open.admission.setCaps('lost', caps)
    for (let i = 0; i < 10; i++) {
      const key = attemptOf('lost')
      if ((await open.admission.admit(key)).admitted) rows.push(key.executionId)
    }
    expect(rows).toHaveLength(10)
    open.close()
  })

  it('counts an attempt in flight again, once and in the windows of its charge', async () => {
    const rows = vi.fn(async () => counts(2, { 'agent-1': 2 }))
    const open = openAdmission(server.url, { ...LONG_WINDOWS, countCharged: rows })
    const verdict = await open.admission.admit(attemptOf('flight'))
    if (!verdict.admitted) throw new Error('unreachable')
    const used = async () => {
      const usage = await open.admission.usage('flight', 'agent-1')
      return [usage.tenant_daily.used, usage.agent_hourly?.used]
    }
    // In the same run of the server, `keepCharge` writes nothing.
    await open.redis.del(await open.redis.keys('cfd:{flight}:*'))
    await open.admission.keepCharge(verdict)
    expect(await dump(open.redis, 'flight')).toEqual({})
    // In another run, the rows are counted first. They do not contain this attempt, so it is added.
    const before = { ...verdict, serverRun: 'another' }
    await Promise.all([open.admission.keepCharge(before), open.admission.keepCharge(before)])
    expect(await used()).toEqual([3, 3])
    expect(await open.admission.chargedAtMs(verdict.lease)).toBe(verdict.chargedAtMs)
    // The charge belongs to its owner again, who can refund it.
    expect(await open.admission.refund(verdict.lease, verdict.lease)).toBe(true)
    expect(await used()).toEqual([2, 2])
    // For a charge of an earlier hour only the day is counted.
    await open.admission.keepCharge({ ...before, chargedAtMs: LONG_WINDOWS.hourMs - 1 })
    expect(await used()).toEqual([3, 2])
    open.close()
  })

  it('counts an attempt whose row waited again if its charge was lost, and only then', async () => {
    const open = openAdmission(server.url, { ...LONG_WINDOWS, countCharged: async () => counts(2) })
    const verdict = await open.admission.admit(attemptOf('waited'))
    if (!verdict.admitted) throw new Error('unreachable')
    const { lease, chargedAtMs } = verdict
    const used = async () => (await open.admission.usage('waited')).tenant_daily.used
    // The worker releases the attempt before its row is stored, so the ledger entry lives as long as that of
    // a running attempt.
    await open.admission.release(lease, { settled: false, settlement: { cpuMs: 0, cost: 0 } })
    expect(await open.redis.pttl(keys.charge(lease))).toBeGreaterThan(LEDGER_TTL_MS - 60_000)
    await open.admission.keepEarlierCharge({ ...lease, chargedAtMs })
    expect(await used()).toBe(3)
    await open.redis.del(await open.redis.keys('cfd:{waited}:*'))
    await Promise.all([1, 2].map(() => open.admission.keepEarlierCharge({ ...lease, chargedAtMs })))
    expect(await used()).toBe(3)
    open.close()
  })

  it('lets an attempt end when its charge cannot be counted again, and logs that', async () => {
    const warn = vi.fn()
    let isAway = false
    const open = openAdmission(server.url, {
      ...LONG_WINDOWS,
      logger: { warn },
      countCharged: async () => {
        if (isAway) throw new Error('Postgres is away')
        return counts(0)
      },
    })
    const verdict = await open.admission.admit(attemptOf('flight-away'))
    if (!verdict.admitted) throw new Error('unreachable')
    await open.redis.del(await open.redis.keys('cfd:{flight-away}:*'))
    isAway = true
    await open.admission.keepCharge({ ...verdict, serverRun: 'another' })
    expect(warn).toHaveBeenCalledTimes(1)
    expect(await dump(open.redis, 'flight-away')).toEqual({})
    open.close()
  })

  it('compares again after a restart: missing charges are added, those in flight are kept', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'cofferdam-seeding-'))
    let recorded = 0
    let ended: AttemptName[] = []
    const first = await startRedis({ dataDir, durable: true })
    const open = openAdmission(first.url, {
      ...LONG_WINDOWS,
      leaseMs: 600_000,
      countCharged: async () => ({ ...counts(recorded, { 'agent-1': recorded }), ended }),
    })
    const used = async () => {
      const { tenant_daily, agent_hourly } = await open.admission.usage('again', 'agent-1')
      expect(agent_hourly?.used).toBe(tenant_daily.used)
      return tenant_daily.used
    }
    const attempts = [1, 2, 3].map(() => attemptOf('again'))
    for (const attempt of attempts) await open.admission.admit(attempt)
    expect(await used()).toBe(3)
    await first.stop()
    const second = await startRedis({ dataDir, durable: true })
    try {
      // All 3 charges survived the restart. One attempt is recorded, the others are in flight.
      recorded = 1
      ended = [attempts[0]!]
      await vi.waitFor(
        async () => expect((await open.admission.admit(attemptOf('again'))).admitted).toBe(true),
        {
          timeout: 30_000,
        },
      )
      expect(await used()).toBe(4)
    } finally {
      await second.stop()
    }
    const third = await startRedis({ dataDir, durable: true })
    try {
      // As if Redis lost the last second of its append-only file: 9 attempts have rows, but Redis counts only
      // 4, of which 3 still run.
      recorded = 9
      await vi.waitFor(async () => expect((await open.admission.usage('again')).seeded).toBe(false), {
        timeout: 30_000,
      })
      expect((await open.admission.admit(attemptOf('again'))).admitted).toBe(true)
      expect(await used()).toBe(9 + 3 + 1)
    } finally {
      open.close()
      await third.stop()
      rmSync(dataDir, { recursive: true, force: true })
    }
  })

  it('counts attempts that ran before an outage longer than their leases', async () => {
    const leaseMs = 100
    const open = openAdmission(server.url, { ...LONG_WINDOWS, leaseMs, countCharged: async () => counts(2) })
    const verdict = await open.admission.admit(attemptOf('away'))
    if (!verdict.admitted) throw new Error('unreachable')
    await vi.waitFor(async () => {
      const [seconds, micros] = await open.redis.time()
      const nowMs = Number(seconds) * 1000 + Number(micros) / 1000
      expect(nowMs).toBeGreaterThan(verdict.chargedAtMs + 3 * leaseMs)
    }, 20_000)
    // As if Redis lost the charges of the two attempts that have rows now.
    await open.redis.hset('cfd:{away}:day', 'n', 1)
    await open.redis.set('cfd:{away}:seeded', 'another life')
    expect(await open.admission.admit(attemptOf('away'))).toMatchObject({
      caps: { tenant_daily: { used: 2 + 1 + 1 } },
    })
    open.close()
  })

  it('counts again if an attempt that it took for open was refunded meanwhile', async () => {
    const countCharged = vi.fn(async () => counts(2, { 'agent-1': 2 }))
    const open = openAdmission(server.url, { ...LONG_WINDOWS, countCharged })
    const [running, refunded] = [attemptOf('refunding'), attemptOf('refunding')]
    for (const attempt of [running, refunded])
      expect((await open.admission.admit(attempt)).admitted).toBe(true)
    await open.redis.set('cfd:{refunding}:seeded', 'another life')
    countCharged.mockClear()
    const mget = open.redis.mget.bind(open.redis) as (names: string[]) => Promise<(string | null)[]>
    Object.assign(open.redis, {
      async mget(names: string[]) {
        const entries = await mget(names)
        await open.admission.refund(refunded)
        return entries
      },
    })
    // Two rows, the running attempt, and the new one. The refunded attempt's charge is gone.
    expect(await open.admission.admit(attemptOf('refunding'))).toMatchObject({
      caps: { tenant_daily: { used: 2 + 1 + 1 }, agent_hourly: { used: 2 + 1 + 1 } },
    })
    expect(countCharged).toHaveBeenCalledTimes(2)
    open.close()
  })

  it('also compares for an admission that its connection sends again', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'cofferdam-seeding-'))
    let recorded = 0
    let server = await startRedis({ dataDir, durable: true })
    const open = openAdmission(server.url, {
      ...LONG_WINDOWS,
      timeoutMs: 60_000,
      leaseMs: 600_000,
      countCharged: async () => counts(recorded),
    })
    const unanswered = (): number =>
      (open.redis as unknown as { commandQueue: unknown[] }).commandQueue.length
    try {
      expect((await open.admission.admit(attemptOf('sent-again'))).admitted).toBe(true)
      // Wait until the first admission is in Redis's file, so that the kill below cannot lose it. Redis
      // writes up to 2 s late while the disk is slow.
      await vi.waitFor(
        async () => expect(await open.redis.info('persistence')).toContain('aof_buffer_length:0\r\n'),
        20_000,
      )
      process.kill(server.pid, 'SIGSTOP')
      const admitted = open.admission.admit(attemptOf('sent-again'))
      await vi.waitFor(() => expect(unanswered()).toBe(1), 20_000)
      process.kill(server.pid, 'SIGKILL')
      await server.stop()
      // As if Redis lost the last second of its append-only file: 9 attempts have rows, but Redis counts only
      // 1, which still runs.
      recorded = 9
      server = await startRedis({ dataDir, durable: true })
      expect(await admitted).toMatchObject({ admitted: true })
      expect((await open.admission.usage('sent-again')).tenant_daily.used).toBe(9 + 1 + 1)
    } finally {
      open.close()
      await server.stop()
      rmSync(dataDir, { recursive: true, force: true })
    }
  })
})
