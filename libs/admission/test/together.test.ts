import { isolatedRedis } from '@cofferdam/embedded/testing'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { keys } from '../src/keys.ts'
import { defineScripts } from '../src/scripts.ts'
import { attemptOf, ledger, LONG_WINDOWS, openAdmission } from './open-admission.ts'

let server: Awaited<ReturnType<typeof isolatedRedis>>
beforeAll(async () => {
  server = await isolatedRedis()
})
afterAll(() => server.stop())

it("concurrent admissions keep each tenant's caps, and a failing one fails alone", async () => {
  const open = openAdmission(server.url, LONG_WINDOWS)
  const { admission, redis } = open
  const caps = { tenant_daily: 5, agent_hourly: 5 }
  await admission.setCaps('few', { ...(await admission.getCaps('few')), ...caps })
  // The first admission of a tenant restores its counters.
  for (const tenant of ['few', 'many']) await admission.admit(attemptOf(tenant))
  const attempts = Array.from({ length: 40 }, (_, i) => attemptOf(i % 2 === 0 ? 'few' : 'many'))
  const [, broken] = attempts
  if (broken === undefined) throw new Error('there are 40')
  await redis.lpush(keys.charge(broken), 'no string')

  const verdicts = await Promise.all(attempts.map((attempt) => admission.admit(attempt)))
  const admittedOf = (tenant: string) =>
    verdicts.filter(({ admitted }, i) => admitted && attempts[i]?.tenantId === tenant).length
  expect([admittedOf('few'), admittedOf('many')]).toEqual([4, 19])
  expect(verdicts[1]).toMatchObject({ admitted: false, dimension: 'unknown' })
  expect(await ledger(redis, 'few')).toHaveLength(5)
  expect((await admission.usage('many')).tenant_daily.used).toBe(20)

  const leases = verdicts.flatMap((verdict) => (verdict.admitted ? [verdict.lease] : []))
  await Promise.all(leases.map((lease) => admission.release(lease, { settled: true })))
  // The first attempt of each tenant still holds its lease.
  expect((await admission.usage('many')).concurrency.running).toBe(1)
  expect((await admission.usage('few')).concurrency.running).toBe(1)
  open.close()
})

it("one tenant is answered while the node with another tenant's keys is silent", async () => {
  const cluster = {
    defineCommand: (name: string) =>
      Reflect.set(cluster, name, ([, key]: string[]) =>
        key === 'cfd:{silent}:lease' ? Promise.withResolvers().promise : Promise.resolve(['released']),
      ),
  }
  const scripts = defineScripts(cluster as unknown as Redis, 100)
  const release = (tenant: string) => scripts.run('release', [`cfd:{${tenant}}:lease`], [])
  const settled = await Promise.allSettled(['silent', 'other'].map(release))
  expect(settled).toMatchObject([
    { status: 'rejected', reason: { code: 'queue_unavailable' } },
    { status: 'fulfilled', value: { code: 'released' } },
  ])
})
