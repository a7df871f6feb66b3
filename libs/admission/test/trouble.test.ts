import { isolatedRedis } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { attemptOf, connect, dump, ledger, LONG_WINDOWS, openAdmission } from './open-admission.ts'

let server: Awaited<ReturnType<typeof isolatedRedis>>
beforeAll(async () => {
  server = await isolatedRedis()
})
afterAll(() => server.stop())

const NOW = 1_800_000_000_000
const UNKNOWN = {
  admitted: false,
  dimension: 'unknown',
  resetsAtMs: NOW + 60_000,
  killSwitch: false,
  caps: null,
}

describe('when Redis cannot be asked', () => {
  it.each([
    ['a connection that waits for the server', { enableOfflineQueue: true }],
    ['a connection that fails at once', { enableOfflineQueue: false }],
  ])('refuses through %s for a minute, and logs the reason', async (_name, options) => {
    const warn = vi.fn()
    const open = openAdmission(
      'unix:///nonexistent/redis.sock',
      { timeoutMs: 100, now: () => NOW, logger: { warn } },
      options,
    )
    expect(await open.admission.admit(attemptOf('t'))).toEqual(UNKNOWN)
    expect(warn).toHaveBeenCalledWith(
      expect.objectContaining({
        tenant_id: 't',
        err: expect.objectContaining({ code: 'queue_unavailable' }),
      }),
      expect.stringContaining('failing closed'),
    )
    open.close()
  })

  it('throws queue_unavailable from everything except admit', async () => {
    const open = openAdmission('unix:///nonexistent/redis.sock', { timeoutMs: 100 })
    const key = attemptOf('t')
    const lease = { ...key, token: 'x', expiresAtMs: NOW }
    for (const call of [
      open.admission.renew([lease]),
      open.admission.release(lease),
      open.admission.refund(key),
      open.admission.usage('t'),
      open.admission.chargedAtMs(key),
      open.admission.getCaps('t'),
    ])
      await expect(call).rejects.toMatchObject({ code: 'queue_unavailable' })
    open.close()
  })

  it('undoes an admission that the server carried out after the time limit', async () => {
    const open = openAdmission(server.url, { ...LONG_WINDOWS, timeoutMs: 150, now: () => NOW })
    await vi.waitFor(
      async () => expect((await open.admission.admit(attemptOf('slow'))).admitted).toBe(true),
      20_000,
    )
    const other = connect(server.url)
    const key = attemptOf('slow')
    expect(await whileServerSleeps(() => open.admission.admit(key))).toEqual(UNKNOWN)
    await vi.waitFor(
      async () => {
        expect(await open.admission.chargedAtMs(key)).toBeNull()
        expect(await ledger(other, 'slow')).toHaveLength(1)
        const usage = await open.admission.usage('slow')
        expect([usage.tenant_daily.used, usage.concurrency.running]).toEqual([1, 1])
      },
      { timeout: 20_000 },
    )
    other.disconnect()
    open.close()
  })

  it.each([
    ['before the late call', true],
    ['after the late call', false],
  ])('does not undo the admission of another owner that was made %s', async (_name, nextIsFirst) => {
    const slow = openAdmission(server.url, { ...LONG_WINDOWS, timeoutMs: 150 })
    const next = openAdmission(server.url, { ...LONG_WINDOWS, timeoutMs: 10_000 })
    const tenant = `overtaken-${nextIsFirst}`
    for (const open of [slow, next])
      await vi.waitFor(
        async () => expect((await open.admission.admit(attemptOf(tenant))).admitted).toBe(true),
        20_000,
      )
    const other = connect(server.url)
    const key = attemptOf(tenant)
    if (nextIsFirst) expect(await next.admission.admit(key)).toMatchObject({ charged: 'now' })
    const charges: Promise<unknown>[] = []
    const late = await whileServerSleeps(() => {
      const verdict = slow.admission.admit(key)
      if (!nextIsFirst) charges.push(next.admission.admit(key))
      return verdict
    })
    expect(late).toMatchObject({ admitted: false, dimension: 'unknown' })
    for (const charge of charges) expect(await charge).toMatchObject({ admitted: true })
    // Redis answers in order. Its first answer shows that it has executed the late call, and its second
    // answer that the client has undone the call.
    for (let calls = 0; calls < 2; calls += 1)
      await vi.waitFor(() => slow.admission.usage(tenant), { timeout: 20_000 })
    expect(await next.admission.chargedAtMs(key)).toBeTypeOf('number')
    expect((await next.admission.usage(tenant)).tenant_daily.used).toBe(3)
    expect(await ledger(other, tenant)).toHaveLength(3)
    for (const open of [slow, next]) open.close()
    other.disconnect()
  })
})

/** Runs `work` while the server executes nothing. Then it executes everything that waits. */
async function whileServerSleeps<T>(work: () => Promise<T>): Promise<T> {
  process.kill(server.pid, 'SIGSTOP')
  try {
    return await work()
  } finally {
    process.kill(server.pid, 'SIGCONT')
  }
}

describe('when Redis gives an unexpected answer', () => {
  it('fails closed and writes nothing more if a key has the wrong type', async () => {
    const open = openAdmission(server.url, { now: () => NOW })
    await open.admission.admit(attemptOf('mangled'))
    await open.redis.set('cfd:{mangled}:hr:agent-2', 'not a hash')
    const before = await dump(open.redis, 'mangled')
    expect(await open.admission.admit(attemptOf('mangled', 'agent-2'))).toEqual(UNKNOWN)
    expect(await dump(open.redis, 'mangled')).toEqual(before)
    open.close()
  })

  it('loads its scripts again when the server forgot them', async () => {
    const open = openAdmission(server.url)
    expect((await open.admission.admit(attemptOf('flushed'))).admitted).toBe(true)
    await open.redis.script('FLUSH')
    expect((await open.admission.admit(attemptOf('flushed'))).admitted).toBe(true)
    open.close()
  })
})
