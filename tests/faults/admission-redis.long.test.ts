/**
 * Caps on a Redis of their own. Each of the two Redis servers is lost without the other, and workers are
 * killed. Each time, the counters equal the charged rows.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createAdmission } from '@cofferdam/admission'
import type { Accepted } from '@cofferdam/contract'
import { startRedis, type RunningServer } from '@cofferdam/embedded'
import { HOUR_MS, untilWindowLasts } from '@cofferdam/embedded/testing'
import { connectRedis } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { endingsOf, expectExactBooks, fakeRequest } from './accounts.ts'

let fleet: Fleet
let caps: RunningServer
let folder: string
let capsRedis: Redis
let queueRedis: Redis
/** Keeps no file, so that a restart loses every counter, lease and charge. */
const startCaps = () => startRedis({ dataDir: join(folder, 'caps'), durable: false })
const WORKER = () => ({
  COFFERDAM_BACKENDS: 'fake',
  COFFERDAM_SLOTS: '8',
  COFFERDAM_ADMISSION_REDIS_URL: caps.url,
})

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cofferdam-caps-'))
  caps = await startCaps()
  const own = await startFleet({ ownPostgres: true })
  capsRedis = connectRedis(caps.url, 'worker')
  queueRedis = connectRedis(own.redisUrl, 'worker')
  const admission = createAdmission({
    redis: capsRedis,
    countCharged: (tenantId, atMs, unsettled) => own.store.chargedCounts(tenantId, atMs, unsettled),
  })
  fleet = { ...own, admission }
})
afterAll(async () => {
  capsRedis?.disconnect()
  queueRedis?.disconnect()
  await fleet?.[Symbol.asyncDispose]()
  await caps?.stop()
  await rm(folder, { recursive: true, force: true })
})
beforeEach(() => untilWindowLasts(HOUR_MS, 120_000))

const tenant = async (name: string): Promise<string> => {
  await fleet.createTenant(name, {
    policy: { min_isolation: 'none' },
    caps: { tenant_daily: 100, agent_hourly: 100 },
  })
  return name
}

async function loseCaps(): Promise<void> {
  await caps.stop()
  caps = await startCaps()
}

const enqueue = async (name: string, count: number, steps: object[]): Promise<Accepted[]> => {
  const accepted: Accepted[] = []
  for (let n = 0; n < count; n += 1) accepted.push(await fleet.client.enqueue(fakeRequest(name, steps)))
  return accepted
}

it('counts exactly on its own Redis, and leaves nothing of it on that of the queue', async () => {
  const name = await tenant('apart')
  const worker = await fleet.startWorker(WORKER())
  const accepted = await enqueue(name, 5, [{ print: 'x' }])
  await expectExactBooks(fleet, name, accepted, await endingsOf(fleet, accepted, 60_000))
  expect((await fleet.admission.usage(name)).tenant_daily.used).toBe(5)
  expect(await queueRedis.keys(`cfd:{${name}}:{day,charge*,lease,seeded}`)).toEqual([])
  expect(await queueRedis.exists(`cfd:{${name}}:day`)).toBe(0)
  expect(await capsRedis.exists(`cfd:{${name}}:day`)).toBe(1)
  await worker.stop()
})

it('counts attempts whose rows waited in the outbox while the caps were lost', async () => {
  const name = await tenant('outbox')
  const worker = await fleet.startWorker(WORKER())
  const first = await enqueue(name, 2, [{ print: 'x' }])
  await endingsOf(fleet, first, 60_000)
  const waiting = await enqueue(name, 3, [{ print: 'x' }, { sleep_ms: 3000 }])
  await expect
    .poll(async () => (await fleet.admission.usage(name)).tenant_daily.used, { timeout: 60_000 })
    .toBe(5)
  await fleet.stopPostgres()
  await expect.poll(() => queueRedis.xlen(KEYS.outbox), { timeout: 60_000 }).toBe(3)
  await worker.kill()
  await loseCaps()
  await fleet.startPostgres()
  const heir = await fleet.startWorker(WORKER())
  const accepted = [...first, ...waiting]
  await expectExactBooks(fleet, name, accepted, await endingsOf(fleet, accepted, 60_000))
  expect((await fleet.admission.usage(name)).tenant_daily.used).toBe(5)
  await heir.stop()
})

it('counts exactly while its Redis is lost under running executions and workers are killed', async () => {
  const name = await tenant('kills')
  const workers = [await fleet.startWorker(WORKER()), await fleet.startWorker(WORKER())]
  const accepted = await enqueue(name, 30, [{ sleep_ms: 400 }, { print: 'x' }])
  await expect
    .poll(async () => (await fleet.admission.usage(name)).tenant_daily.used, { timeout: 60_000 })
    .toBeGreaterThan(4)
  await workers[0]?.kill()
  await loseCaps()
  workers[0] = await fleet.startWorker(WORKER())
  const results = await endingsOf(fleet, accepted, 120_000)
  await expectExactBooks(fleet, name, accepted, results)
  await Promise.all(workers.map((worker) => worker.stop()))
})

it('refuses while its Redis is away, and charges nothing for that', async () => {
  const name = await tenant('away')
  const worker = await fleet.startWorker(WORKER())
  const before = await enqueue(name, 1, [])
  await endingsOf(fleet, before, 60_000)
  await caps.stop()
  const refused = await enqueue(name, 1, [])
  const [ending] = await endingsOf(fleet, refused, 120_000)
  expect(ending).toMatchObject({ ending: 'cap_exceeded', dimension: 'unknown' })
  caps = await startCaps()
  const after = await enqueue(name, 1, [])
  const results = await endingsOf(fleet, [...before, ...refused, ...after], 60_000)
  await expectExactBooks(fleet, name, [...before, ...refused, ...after], results)
  expect((await fleet.admission.usage(name)).tenant_daily.used).toBe(2)
  await worker.stop()
})
