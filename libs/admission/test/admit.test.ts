import { DEFAULT_TENANT_CAPS, type TenantCaps } from '@cofferdam/contract'
import { isolatedRedis, type TestServer } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { LEDGER_TTL_MS, SETTLED_TTL_MS, type Admitted, type Refused } from '../src/index.ts'
import { attemptOf, dump, ledger, LONG_WINDOWS, openAdmission, type Opened } from './open-admission.ts'

let server: TestServer
let open: Opened
beforeAll(async () => {
  server = await isolatedRedis()
  open = openAdmission(server.url, LONG_WINDOWS)
})
afterAll(async () => {
  open.close()
  await server.stop()
})

let count = 0
/** Gives these caps to a new tenant, so that tests do not share one. */
async function tenantWith(caps: Partial<TenantCaps> = {}): Promise<string> {
  const tenant = `tenant-${++count}`
  await open.admission.setCaps(tenant, { ...DEFAULT_TENANT_CAPS, ...caps })
  return tenant
}
const admitted = (verdict: Admitted | Refused): Admitted => {
  if (!verdict.admitted) throw new Error(`refused: ${JSON.stringify(verdict)}`)
  return verdict
}
const refused = (verdict: Admitted | Refused): Refused => {
  if (verdict.admitted) throw new Error(`admitted: ${JSON.stringify(verdict)}`)
  return verdict
}

describe('charging', () => {
  it("refunds a dead owner's charge at once when the next owner is refused", async () => {
    const tenant = await tenantWith({ tenant_daily: 5 })
    const key = attemptOf(tenant)
    admitted(await open.admission.admit({ ...key, fence: 1 }))
    await open.admission.setCaps(tenant, { ...DEFAULT_TENANT_CAPS, tenant_daily: 0 })
    expect(refused(await open.admission.admit({ ...key, fence: 2 })).killSwitch).toBe(true)
    expect((await open.admission.usage(tenant)).tenant_daily.used).toBe(0)
  })

  it('throws `fenced` for an older owner if a later one was admitted', async () => {
    const key = attemptOf(await tenantWith())
    admitted(await open.admission.admit({ ...key, fence: 2 }))
    await expect(open.admission.admit({ ...key, fence: 1 })).rejects.toMatchObject({ code: 'fenced' })
  })

  it('lets only the later owner of an attempt refund what either was charged', async () => {
    const tenant = await tenantWith()
    const key = attemptOf(tenant)
    admitted(await open.admission.admit({ ...key, fence: 2 }))
    expect(await open.admission.refund({ ...key, fence: 1 })).toBe(false)
    expect((await open.admission.usage(tenant)).tenant_daily.used).toBe(1)
    expect(await open.admission.refund({ ...key, fence: 3 })).toBe(true)
    expect((await open.admission.usage(tenant)).tenant_daily.used).toBe(0)
  })

  it("charges the UTC day of the tenant and the UTC hour of the agent, by Redis's clock", async () => {
    const calendar = openAdmission(server.url)
    const tenant = await tenantWith()
    const before = await redisNow()
    const verdict = admitted(await calendar.admission.admit(attemptOf(tenant)))
    calendar.close()
    const after = await redisNow()
    expect(verdict.charged).toBe('now')
    expect(verdict.chargedAtMs).toBeGreaterThanOrEqual(before)
    expect(verdict.chargedAtMs).toBeLessThanOrEqual(after)
    expect(verdict.caps.tenant_daily).toMatchObject({ used: 1, limit: 1000 })
    expect(verdict.caps.agent_hourly).toMatchObject({ used: 1, limit: 100 })
    expect(verdict.caps.tenant_daily.resets_at).toMatch(/T00:00:00\.000Z$/)
    expect(verdict.caps.agent_hourly.resets_at).toMatch(/T\d\d:00:00\.000Z$/)
    expect(verdict.lease.expiresAtMs).toBe(verdict.chargedAtMs + 15_000)
  })

  it('charges a redelivered attempt once, and the next attempt again', async () => {
    const tenant = await tenantWith()
    const key = attemptOf(tenant)
    const first = admitted(await open.admission.admit(key))
    const again = admitted(await open.admission.admit(key))
    expect(again).toMatchObject({ charged: 'before', chargedAtMs: first.chargedAtMs })
    expect(again.caps.tenant_daily.used).toBe(1)
    const second = admitted(await open.admission.admit({ ...key, attempt: 2 }))
    expect(second.charged).toBe('now')
    expect(second.caps.tenant_daily.used).toBe(2)
    expect(await ledger(open.redis, tenant)).toHaveLength(2)
  })

  it("refuses a call beyond the day's cap, says when it resets, and writes nothing", async () => {
    const tenant = await tenantWith({ tenant_daily: 2 })
    await open.admission.admit(attemptOf(tenant))
    await open.admission.admit(attemptOf(tenant))
    const before = await dump(open.redis, tenant)
    const verdict = refused(await open.admission.admit(attemptOf(tenant)))
    expect(verdict).toMatchObject({ dimension: 'tenant_daily', killSwitch: false })
    expect(new Date(verdict.resetsAtMs).toISOString()).toBe(verdict.caps?.tenant_daily.resets_at)
    expect(verdict.caps?.tenant_daily).toMatchObject({ used: 2, limit: 2 })
    expect(await dump(open.redis, tenant)).toEqual(before)
  })

  it('does not charge the day when the hour of the agent is full', async () => {
    const tenant = await tenantWith({ agent_hourly: 1 })
    await open.admission.admit(attemptOf(tenant, 'busy'))
    const before = await dump(open.redis, tenant)
    const verdict = refused(await open.admission.admit(attemptOf(tenant, 'busy')))
    expect(verdict.dimension).toBe('agent_hourly')
    expect(verdict.resetsAtMs).toBe(2e12)
    expect(await dump(open.redis, tenant)).toEqual(before)
    expect((await open.admission.admit(attemptOf(tenant, 'idle'))).admitted).toBe(true)
  })

  it('names the day when day and hour are both full', async () => {
    const tenant = await tenantWith({ tenant_daily: 1, agent_hourly: 1 })
    await open.admission.admit(attemptOf(tenant))
    expect(refused(await open.admission.admit(attemptOf(tenant))).dimension).toBe('tenant_daily')
  })

  it("uses the agent's own cap first, then the tenant's for agents, then the fleet's", async () => {
    const tenant = await tenantWith({ agent_hourly: 7, agents: { favoured: 9 } })
    const limitOf = async (agent: string, of = tenant) =>
      (await open.admission.admit(attemptOf(of, agent))).caps?.agent_hourly.limit
    expect(await limitOf('favoured')).toBe(9)
    expect(await limitOf('other')).toBe(7)
    expect(await limitOf('other', await tenantWith())).toBe(100)
  })

  it('accepts a ledger entry of an earlier version, which has no agent', async () => {
    const tenant = await tenantWith()
    const key = attemptOf(tenant)
    const { lease, chargedAtMs } = admitted(await open.admission.admit(key))
    const name = `cfd:{${tenant}}:charge:${key.executionId}:1`
    const entry = await open.redis.get(name)
    expect(entry).toContain(':agent-1:')
    await open.redis.set(name, entry!.replace(':agent-1:', ':'))
    expect(await open.admission.chargedAtMs(key)).toBe(chargedAtMs)
    expect(await open.admission.refund(key, lease)).toBe(true)
    await open.redis.set(name, entry!.replace(':agent-1:', ':'))
    expect(admitted(await open.admission.admit(key))).toMatchObject({ charged: 'before', chargedAtMs })
  })

  it("keeps all keys in the tenant's hash slot, and the ledger for 49 hours", async () => {
    const tenant = await tenantWith({ rate_per_second: 100, burst: 10 })
    const key = attemptOf(tenant)
    await open.admission.admit(key)
    const names = await open.redis.keys(`*${tenant}*`)
    expect(names.toSorted()).toEqual(
      [
        `cfd:{${tenant}}:caps`,
        `cfd:{${tenant}}:charge:${key.executionId}:1`,
        `cfd:{${tenant}}:day`,
        `cfd:{${tenant}}:hr:agent-1`,
        `cfd:{${tenant}}:lease`,
        `cfd:{${tenant}}:seeded`,
        `cfd:{${tenant}}:tat`,
      ].toSorted(),
    )
    const ttl = await open.redis.pttl(`cfd:{${tenant}}:charge:${key.executionId}:1`)
    expect(ttl).toBeGreaterThan(49 * 3_600_000 - 60_000)
    expect(LEDGER_TTL_MS).toBe(49 * 3_600_000)
  })
})

describe('kill switch', () => {
  it.each([
    ['tenant_daily', { tenant_daily: 0 }],
    ['agent_hourly', { agent_hourly: 0 }],
    ['agent_hourly', { agents: { 'agent-1': 0 } }],
  ] as const)('of %s acts on the next call', async (dimension, caps) => {
    const tenant = await tenantWith()
    admitted(await open.admission.admit(attemptOf(tenant)))
    await open.admission.setCaps(tenant, { ...DEFAULT_TENANT_CAPS, ...caps })
    expect(refused(await open.admission.admit(attemptOf(tenant)))).toMatchObject({
      dimension,
      killSwitch: true,
    })
    await open.admission.setCaps(tenant, DEFAULT_TENANT_CAPS)
    expect((await open.admission.admit(attemptOf(tenant))).admitted).toBe(true)
  })

  it('stops an attempt that was charged before, and refunds its charge if no owner is alive', async () => {
    const tenant = await tenantWith()
    const key = attemptOf(tenant)
    const { lease } = admitted(await open.admission.admit(key))
    await open.admission.setCaps(tenant, { ...DEFAULT_TENANT_CAPS, tenant_daily: 0 })
    expect(refused(await open.admission.admit(key)).killSwitch).toBe(true)
    expect(await open.admission.chargedAtMs(key)).toBeTypeOf('number')
    await open.admission.release(lease) // the lease of a worker that died
    await open.admission.setCaps(tenant, { ...DEFAULT_TENANT_CAPS, tenant_daily: 0 })
    expect(refused(await open.admission.admit(key)).killSwitch).toBe(true)
    expect(await open.admission.chargedAtMs(key)).toBeNull()
    expect((await open.admission.usage(tenant)).tenant_daily).toMatchObject({ used: 0, limit: 0 })
  })

  it('writes nothing for a tenant that never ran', async () => {
    const tenant = await tenantWith({ tenant_daily: 0 })
    await open.admission.admit(attemptOf(tenant))
    expect(Object.keys(await dump(open.redis, tenant))).toEqual([`cfd:{${tenant}}:caps`])
  })
})

describe('concurrency', () => {
  it('refuses an attempt beyond the limit, and says when the first lease ends', async () => {
    const tenant = await tenantWith({ concurrency: 2 })
    const first = admitted(await open.admission.admit(attemptOf(tenant)))
    const second = admitted(await open.admission.admit(attemptOf(tenant)))
    const third = attemptOf(tenant)
    const before = await dump(open.redis, tenant)
    expect(refused(await open.admission.admit(third))).toMatchObject({
      dimension: 'tenant_concurrency',
      resetsAtMs: Math.min(first.lease.expiresAtMs, second.lease.expiresAtMs),
      killSwitch: false,
    })
    expect(await dump(open.redis, tenant)).toEqual(before)
    await open.admission.release(first.lease)
    expect((await open.admission.admit(third)).admitted).toBe(true)
  })

  it('admits the holder of a lease again', async () => {
    const tenant = await tenantWith({ concurrency: 1 })
    const key = attemptOf(tenant)
    await open.admission.admit(key)
    expect(admitted(await open.admission.admit(key)).charged).toBe('before')
    expect((await open.admission.usage(tenant)).concurrency).toEqual({ running: 1, limit: 1 })
  })

  it('frees the lease of a dead holder when it expires, and renewal keeps a living one', async () => {
    const short = openAdmission(server.url, { ...LONG_WINDOWS, leaseMs: 200 })
    const tenant = await tenantWith({ concurrency: 2 })
    const dead = admitted(await short.admission.admit(attemptOf(tenant)))
    // Use the long lease, because a machine may stand still between two renewals.
    const alive = admitted(await open.admission.admit(attemptOf(tenant)))
    const next = attemptOf(tenant)
    await vi.waitFor(
      async () => {
        expect(await open.admission.renew([alive.lease])).toEqual([])
        expect((await open.admission.admit(next)).admitted).toBe(true)
      },
      { timeout: 20_000, interval: 50 },
    )
    expect(await redisNow()).toBeGreaterThanOrEqual(dead.lease.expiresAtMs)
    expect(await open.admission.renew([dead.lease, alive.lease])).toEqual([dead.lease])
    const ends = await open.redis.zscore(`cfd:{${tenant}}:lease`, `${alive.lease.executionId}:1`)
    expect(Number(ends)).toBeGreaterThan(alive.lease.expiresAtMs)
    short.close()
  })

  it('reports an expired lease as lost even if its slot is free, and removes it', async () => {
    const short = openAdmission(server.url, { ...LONG_WINDOWS, leaseMs: 100 })
    const tenant = await tenantWith()
    const { lease } = admitted(await short.admission.admit(attemptOf(tenant)))
    const held = admitted(await open.admission.admit(attemptOf(tenant))).lease
    await vi.waitFor(async () => expect(await redisNow()).toBeGreaterThan(lease.expiresAtMs), {
      timeout: 20_000,
    })
    expect(await short.admission.renew([lease, held])).toEqual([lease])
    const next = admitted(await open.admission.admit(attemptOf(tenant))).lease
    const members = await open.redis.zrange(`cfd:{${tenant}}:lease`, '0', '-1')
    expect(members).not.toContain(`${lease.executionId}:1`)
    expect(members).toContain(`${next.executionId}:1`)
    short.close()
  })

  it('renews leases of several tenants, and never restores a lost one', async () => {
    const [a, b] = [await tenantWith(), await tenantWith()]
    const leases = await Promise.all(
      [a, a, b].map(async (tenant) => admitted(await open.admission.admit(attemptOf(tenant))).lease),
    )
    await open.admission.release(leases[1]!)
    expect(await open.admission.renew(leases)).toEqual([leases[1]])
    expect((await open.admission.usage(a)).concurrency.running).toBe(1)
    expect(await open.admission.renew([])).toEqual([])
  })

  it('does not let an owner that lost the attempt release the lease of the next owner', async () => {
    const tenant = await tenantWith({ concurrency: 1 })
    const key = attemptOf(tenant)
    const old = admitted(await open.admission.admit(key))
    const owner = admitted(await open.admission.admit(key))
    await open.admission.release(old.lease)
    expect((await open.admission.usage(tenant)).concurrency.running).toBe(1)
    expect(await open.admission.refund(key, old.lease)).toBe(false)
    expect(await open.admission.refund(key, owner.lease)).toBe(true)
    await open.admission.release(owner.lease)
    expect((await open.admission.usage(tenant)).concurrency.running).toBe(0)
  })

  it('lets the ledger entry of a settled attempt expire after ten minutes', async () => {
    const tenant = await tenantWith()
    const key = attemptOf(tenant)
    const { lease } = admitted(await open.admission.admit(key))
    await open.admission.release(lease)
    const name = `cfd:{${tenant}}:charge:${key.executionId}:1`
    expect(await open.redis.pttl(name)).toBeGreaterThan(SETTLED_TTL_MS)
    await open.admission.release(lease, { settled: true })
    expect(await open.redis.pttl(name)).toBeLessThanOrEqual(SETTLED_TTL_MS)
  })
})

describe('burst', () => {
  it('admits the burst, then refuses until the rate allows the next attempt', async () => {
    const tenant = await tenantWith({ rate_per_second: 0.01, burst: 3 })
    const verdicts = []
    for (let i = 0; i < 4; i++) verdicts.push(await open.admission.admit(attemptOf(tenant)))
    expect(verdicts.map((v) => v.admitted)).toEqual([true, true, true, false])
    const last = refused(verdicts[3]!)
    expect(last.dimension).toBe('tenant_rate')
    // One start per 100 s: the fourth is allowed 100 s after the first.
    expect(last.resetsAtMs - admitted(verdicts[0]!).chargedAtMs).toBeGreaterThanOrEqual(100_000)
    expect(last.resetsAtMs - admitted(verdicts[0]!).chargedAtMs).toBeLessThan(110_000)
  })

  it('does not count an attempt that was charged before', async () => {
    const tenant = await tenantWith({ rate_per_second: 0.01, burst: 1 })
    const key = attemptOf(tenant)
    await open.admission.admit(key)
    expect((await open.admission.admit(key)).admitted).toBe(true)
    expect(refused(await open.admission.admit(attemptOf(tenant))).dimension).toBe('tenant_rate')
  })

  it('admits the next attempt when the rate allows it', async () => {
    const tenant = await tenantWith({ rate_per_second: 5, burst: 1 })
    const first = admitted(await open.admission.admit(attemptOf(tenant)))
    const second = await vi.waitFor(async () => admitted(await open.admission.admit(attemptOf(tenant))), {
      timeout: 20_000,
      interval: 20,
    })
    expect(second.chargedAtMs - first.chargedAtMs).toBeGreaterThanOrEqual(200)
  })
})

describe('refund', () => {
  it('refunds the charge once, and a second call changes nothing', async () => {
    const tenant = await tenantWith()
    const [key, other] = [attemptOf(tenant), attemptOf(tenant)]
    await open.admission.admit(key)
    await open.admission.admit(other)
    expect(await open.admission.refund(key)).toBe(true)
    expect(await open.admission.refund(key)).toBe(false)
    const usage = await open.admission.usage(tenant, 'agent-1')
    expect([usage.tenant_daily.used, usage.agent_hourly?.used]).toEqual([1, 1])
    expect(await open.admission.chargedAtMs(key)).toBeNull()
    expect(await open.admission.chargedAtMs(other)).toBeTypeOf('number')
  })

  it('refunds nothing for an attempt that was never charged', async () => {
    const tenant = await tenantWith()
    expect(await open.admission.refund(attemptOf(tenant))).toBe(false)
    expect((await open.admission.usage(tenant)).tenant_daily.used).toBe(0)
  })

  it('charges again when a refunded attempt is admitted again', async () => {
    const tenant = await tenantWith()
    const key = attemptOf(tenant)
    await open.admission.admit(key)
    await open.admission.refund(key)
    expect(admitted(await open.admission.admit(key)).charged).toBe('now')
    expect((await open.admission.usage(tenant)).tenant_daily.used).toBe(1)
  })

  it('changes no window that began after the charge', async () => {
    const short = openAdmission(server.url, { dayMs: 600, hourMs: 200 })
    const tenant = await tenantWith({ tenant_daily: 1000, agent_hourly: 1000 })
    const old = admitted(await short.admission.admit(attemptOf(tenant)))
    const dayOf = (ms: number) => Math.floor(ms / 600)
    const fresh = await vi.waitFor(
      async () => {
        const key = attemptOf(tenant)
        const verdict = admitted(await short.admission.admit(key))
        expect(dayOf(verdict.chargedAtMs)).toBeGreaterThan(dayOf(old.chargedAtMs))
        return verdict
      },
      { timeout: 20_000, interval: 10 },
    )
    const stored = () => open.redis.hgetall(`cfd:{${tenant}}:day`)
    const before = await stored()
    expect(before['b']).toBe(String(dayOf(fresh.chargedAtMs)))
    expect(await short.admission.refund(old.lease)).toBe(true)
    expect(await stored()).toEqual(before)
    short.close()
  })
})

describe('caps', () => {
  it('are not replaced by caps that were read before they were set', async () => {
    const tenant = `t-since-${process.pid}`
    const { admission } = open
    const before = await admission.capsRev(tenant)
    await admission.setCaps(tenant, { ...DEFAULT_TENANT_CAPS, tenant_daily: 0 })
    expect(await admission.setCapsSince(tenant, DEFAULT_TENANT_CAPS, before)).toBe(false)
    expect(await admission.getCaps(tenant)).toMatchObject({ tenant_daily: 0 })
    const now = await admission.capsRev(tenant)
    expect(await admission.setCapsSince(tenant, DEFAULT_TENANT_CAPS, now)).toBe(true)
    expect(await admission.getCaps(tenant)).toEqual(DEFAULT_TENANT_CAPS)
  })

  it('are returned as they were set, and invalid ones do not replace the last valid ones', async () => {
    const caps = { ...DEFAULT_TENANT_CAPS, tenant_daily: 5, agents: { a: 1 }, weight: 2.5 }
    const tenant = await tenantWith(caps)
    await expect(open.admission.setCaps(tenant, { ...caps, tenant_daily: -1 })).rejects.toMatchObject({
      code: 'invalid_request',
    })
    expect(await open.admission.getCaps(tenant)).toEqual(caps)
    expect(await open.admission.getCaps('nobody')).toEqual(DEFAULT_TENANT_CAPS)
  })

  it('do not keep overrides that newer caps lack', async () => {
    const tenant = await tenantWith({ agents: { 'agent-1': 1 }, rate_per_second: 0.01, concurrency: 1 })
    await open.admission.setCaps(tenant, DEFAULT_TENANT_CAPS)
    const verdicts = [
      await open.admission.admit(attemptOf(tenant)),
      await open.admission.admit(attemptOf(tenant)),
    ]
    expect(verdicts.map((v) => v.admitted)).toEqual([true, true])
  })

  it('can be read with their use without changing it', async () => {
    const tenant = await tenantWith({ tenant_daily: 10, agent_hourly: 5, concurrency: 3 })
    await open.admission.admit(attemptOf(tenant))
    const before = await dump(open.redis, tenant)
    expect(await open.admission.usage(tenant, 'agent-1')).toMatchObject({
      tenant_daily: { used: 1, limit: 10 },
      agent_hourly: { used: 1, limit: 5 },
      concurrency: { running: 1, limit: 3 },
      seeded: true,
    })
    expect((await open.admission.usage(tenant)).agent_hourly).toBeNull()
    expect(await dump(open.redis, tenant)).toEqual(before)
  })
})

async function redisNow(): Promise<number> {
  const [seconds, micros] = await open.redis.time()
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
}
