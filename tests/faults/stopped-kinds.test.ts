/**
 * A fleet with two kinds of workers, in which a tenant is stopped: by a cap of 0, or until its cap is raised.
 * No kind then starts the tenant's executions, whether one kind or both can run them. That also holds if they
 * waited before, or if the only workers that can run them are away meanwhile.
 */
import { createCapsWriter } from '@cofferdam/admission'
import {
  DEFAULT_TENANT_CAPS,
  type Accepted,
  type ExecutionRequestInput,
  type ExecutionResult,
  type TenantCaps,
} from '@cofferdam/contract'
import { connectRedis, createProducer } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { endingsOf, expectExactBooks, expectNothingHeld } from './accounts.ts'

let fleet: Fleet
let redis: Redis
let writeCaps: (tenantId: string) => Promise<void>
const owned = new AsyncDisposableStack()
beforeAll(async () => {
  fleet = owned.use(await startFleet())
  const connect = (role: 'producer' | 'subscriber') =>
    owned.adopt(connectRedis(fleet.redisUrl, role), (one) => one.disconnect())
  redis = connect('producer')
  writeCaps = createCapsWriter({
    admission: fleet.admission,
    producer: owned.use(createProducer({ redis, subscriber: connect('subscriber') })),
    load: (tenantId) => fleet.store.tenants.get(tenantId),
  })
})
afterAll(() => owned.disposeAsync())
afterEach(() => fleet.stopWorkers())

const FAKE = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '2' }
const NONE = { COFFERDAM_BACKENDS: 'none', COFFERDAM_SLOTS: '2' }
/** Lock (9 s) + stalled check (3 s) + the next check, on a slow machine. */
const RECOVERY_MS = 90_000
const CAPS: TenantCaps = { ...DEFAULT_TENANT_CAPS, tenant_daily: 1000, agent_hourly: 1000 }
/**
 * Backends that only one kind has, that only the other has, and that either can serve. The program for all
 * three is a line that is valid for `fake` and as Python.
 */
const BACKENDS = ['fake', 'none', 'auto'] as const

const createTenant = (tenantId: string) =>
  fleet.createTenant(tenantId, { policy: { min_isolation: 'none' }, caps: CAPS })

/** Does what PUT /v1/tenants/{id}/caps does. */
async function setCaps(tenantId: string, caps: Partial<TenantCaps>): Promise<void> {
  await fleet.store.tenants.setCaps(tenantId, { ...CAPS, ...caps }, 'test')
  await writeCaps(tenantId)
}

const put = (
  tenantId: string,
  backend: string,
  source: string,
  more: Partial<ExecutionRequestInput> = {},
): Promise<Accepted> =>
  fleet.client.enqueue({
    tenant_id: tenantId,
    agent_id: 'a',
    backend,
    program: { type: 'script', language: 'python', source },
    ...more,
  })

const putEach = (tenantId: string, count: number, more: Partial<ExecutionRequestInput> = {}) =>
  Promise.all(
    Array.from({ length: count * BACKENDS.length }, (_, n) =>
      put(tenantId, BACKENDS[n % BACKENDS.length] ?? 'auto', `{"print": "${n}"}`, {
        ...more,
        agent_id: `agent-${n % 4}`,
      }),
    ),
  )

/** Fills every slot of both kinds with executions of these tenants, which last until they are cancelled. */
async function fillSlots(ofFake: string, ofNone: string): Promise<Accepted[]> {
  const limits = { soft_timeout_ms: 600_000, hard_timeout_ms: 600_000 }
  const held = await Promise.all([
    ...[1, 2].map(() => put(ofFake, 'fake', '{"sleep_ms": 600000}', { limits })),
    ...[1, 2].map(() => put(ofNone, 'none', 'import time; time.sleep(600)', { limits })),
  ])
  for (const { execution_id: id } of held)
    for await (const { event } of fleet.client.stream(id)) if (event.type === 'started') break
  return held
}

const cancelAll = async (accepted: readonly Accepted[]) => {
  for (const { execution_id: id } of accepted) await fleet.client.cancel(id)
  await endingsOf(fleet, accepted, RECOVERY_MS)
}

const isStopped = ({ ending, kill_switch: stopped, backend }: ExecutionResult) =>
  ending === 'cap_exceeded' && stopped === true && backend === null

it('starts nothing of a tenant after a cap of 0, on no kind of worker, and nobody else waits for that', async () => {
  await Promise.all([FAKE, NONE].map((env) => fleet.runWorker(env)))
  await Promise.all(['stopped', 'other', 'another'].map(createTenant))
  // A tenant with long runs leaves some slots to others, so one alone cannot fill them.
  const held = await fillSlots('other', 'another')
  // For each kind, one execution is released already. The others wait in the backlog.
  const waiting = await putEach('stopped', 12)
  await setCaps('stopped', { tenant_daily: 0 })
  const others = await putEach('other', 3)
  await cancelAll(held)
  const results = await endingsOf(fleet, waiting, RECOVERY_MS)
  expect(results.filter((result) => !isStopped(result))).toEqual([])
  const rows = await expectExactBooks(fleet, 'stopped', waiting, results)
  expect(rows.filter((row) => row.quota_charged)).toEqual([])
  expect((await endingsOf(fleet, others, RECOVERY_MS)).map(({ ok }) => ok)).toEqual(others.map(() => true))
  // After the cap is lifted, both kinds serve the tenant again.
  await setCaps('stopped', {})
  const again = await endingsOf(fleet, await putEach('stopped', 2), RECOVERY_MS)
  expect(again.map(({ ending }) => ending)).toEqual(again.map(() => 'ok'))
  expect(new Set(again.map(({ backend }) => backend))).toEqual(new Set(['fake', 'none']))
  await expectNothingHeld(fleet)
}, 120_000)

it('starts nothing on workers that were away when the cap became 0', async () => {
  const [, none] = await Promise.all([fleet.runWorker(FAKE), fleet.startWorker(NONE)])
  await Promise.all(['away', 'beside', 'behind'].map(createTenant))
  const held = await fillSlots('beside', 'behind')
  const waiting = await putEach('away', 4)
  await none.kill()
  await setCaps('away', { tenant_daily: 0 })
  await cancelAll(held.slice(0, 2))
  // The kind of worker that is left ends what it can take. Executions that only the killed kind can run keep
  // waiting.
  const takable = waiting.filter((_, n) => BACKENDS[n % BACKENDS.length] !== 'none')
  const ended = await endingsOf(fleet, takable, RECOVERY_MS)
  expect(ended.filter((result) => !isStopped(result))).toEqual([])
  const left = waiting.filter((one) => !takable.includes(one))
  for (const { execution_id: id } of left)
    expect(await fleet.client.get(id)).toMatchObject({ status: 'queued' })
  await fleet.runWorker(NONE)
  const last = await endingsOf(fleet, left, RECOVERY_MS)
  expect(last.filter((result) => !isStopped(result))).toEqual([])
  await expectExactBooks(fleet, 'away', [...takable, ...left], [...ended, ...last])
  await endingsOf(fleet, held, RECOVERY_MS)
  await expectNothingHeld(fleet)
}, 120_000)

it('lets exactly as many start as its cap allows while the rest waits, over both kinds together', async () => {
  await Promise.all([FAKE, NONE].map((env) => fleet.runWorker(env)))
  await Promise.all(['paused', 'free'].map(createTenant))
  await setCaps('paused', { tenant_daily: 5 })
  // More than both kinds can have outstanding, so that some always wait in the backlog.
  const waiting = await putEach('paused', 8, { on_cap: 'defer' })
  const states = () => Promise.all(waiting.map(({ execution_id: id }) => fleet.client.get(id)))
  const ended = async () => (await states()).filter((state) => state?.status === 'ended').length
  // Grows whenever a worker takes the execution.
  const fences = () => Promise.all(waiting.map(({ execution_id: id }) => redis.hget(KEYS.record + id, 'f')))
  for (const [cap, expected] of [
    [5, 5],
    [8, 8],
  ] as const) {
    await setCaps('paused', { tenant_daily: cap })
    await expect.poll(ended, { timeout: RECOVERY_MS, interval: 100 }).toBe(expected)
    await expect.poll(() => redis.zscore(KEYS.parked, 'paused'), { timeout: RECOVERY_MS }).not.toBeNull()
    await expect.poll(() => redis.hget(`${KEYS.tenant}paused`, 'n'), { timeout: RECOVERY_MS }).toBe('0')
    const before = await fences()
    // Both kinds have free slots and serve another tenant, so they pass over the tenant `paused`.
    const others = await endingsOf(fleet, await putEach('free', 2), RECOVERY_MS)
    expect(others.map(({ ok }) => ok)).toEqual(others.map(() => true))
    expect(await ended()).toBe(expected)
    expect((await fleet.admission.usage('paused')).tenant_daily.used).toBe(expected)
    expect(await fences()).toEqual(before)
  }
  await setCaps('paused', {})
  const results = await endingsOf(fleet, waiting, RECOVERY_MS)
  expect(results.map(({ ending }) => ending)).toEqual(results.map(() => 'ok'))
  await expectExactBooks(fleet, 'paused', waiting, results)
  await expectNothingHeld(fleet)
}, 120_000)
