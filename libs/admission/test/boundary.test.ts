/** At the edge of two windows, each call uses the count, cap and reset of only one of them. */
import { DEFAULT_TENANT_CAPS } from '@cofferdam/contract'
import { isolatedRedis, type TestServer } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { attemptOf, openAdmission } from './open-admission.ts'

const DAY_MS = 1200
const HOUR_MS = 400
const PER_DAY = 5
const PER_HOUR = 3

let server: TestServer
beforeAll(async () => {
  server = await isolatedRedis()
})
afterAll(() => server.stop())

describe('at the boundaries of days and hours', () => {
  it('admits exactly the cap of each window, and names resets in the future', async () => {
    const opens = Array.from({ length: 8 }, () =>
      openAdmission(server.url, { dayMs: DAY_MS, hourMs: HOUR_MS }),
    )
    const tenant = 'edge'
    await opens[0]!.admission.setCaps(tenant, {
      ...DEFAULT_TENANT_CAPS,
      tenant_daily: PER_DAY,
      agent_hourly: PER_HOUR,
      concurrency: 100_000,
    })
    const admittedAt: number[] = []
    const deniedDays = new Set<number>()
    const deniedHours = new Set<number>()
    const misaligned: string[] = []
    let calls = 0
    const [startSeconds] = await opens[0]!.redis.time()
    const endMs = (Number(startSeconds) + 6) * 1000
    await Promise.all(
      opens.map(async ({ admission, redis }) => {
        for (;;) {
          const verdict = await admission.admit(attemptOf(tenant))
          const [seconds, micros] = await redis.time()
          const afterMs = Number(seconds) * 1000 + Number(micros) / 1000
          calls++
          if (verdict.admitted) {
            admittedAt.push(verdict.chargedAtMs)
            await admission.release(verdict.lease)
          } else if (verdict.dimension === 'tenant_daily' || verdict.dimension === 'agent_hourly') {
            const length = verdict.dimension === 'tenant_daily' ? DAY_MS : HOUR_MS
            const denied = verdict.dimension === 'tenant_daily' ? deniedDays : deniedHours
            denied.add(verdict.resetsAtMs / length - 1)
            if (verdict.resetsAtMs % length !== 0) misaligned.push(JSON.stringify(verdict))
          } else misaligned.push(JSON.stringify(verdict))
          if (afterMs > endMs) return
        }
      }),
    )
    for (const open of opens) open.close()

    const perDay = Map.groupBy(admittedAt, (ms) => Math.floor(ms / DAY_MS))
    const perHour = Map.groupBy(admittedAt, (ms) => Math.floor(ms / HOUR_MS))
    expect(misaligned).toEqual([])
    expect(calls).toBeGreaterThan(200)
    expect(perDay.size).toBeGreaterThanOrEqual(4)
    for (const [day, times] of perDay) expect([day, times.length <= PER_DAY]).toEqual([day, true])
    for (const [hour, times] of perHour) expect([hour, times.length <= PER_HOUR]).toEqual([hour, true])
    // A window that refused a call must have admitted its full cap. Fewer calls would mean that it counted
    // calls of an older window.
    expect(deniedDays.size).toBeGreaterThan(0)
    for (const day of deniedDays) expect([day, perDay.get(day)?.length]).toEqual([day, PER_DAY])
    for (const hour of deniedHours) expect([hour, perHour.get(hour)?.length]).toEqual([hour, PER_HOUR])
  })
})
