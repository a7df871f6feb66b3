/**
 * The last millisecond of an hour and of a day and the first one of the next, through API, queue and worker:
 * charges on either side, refunds across the edge, what callers are told, and deferred executions.
 */
import { MOVED_CLOCK, movedDate } from './moved-clock.ts'
import type { RunningApi } from '@cofferdam/api'
import { executionStateSchema, type ExecutionRequestInput, type ExecutionState } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { auditRows, fakeRequest } from './accounts.ts'
import { startStoppingWorker, type StoppingWorker } from './start-stopping-worker.ts'
import { tenantOf } from './stopping-worker.ts'

/** A day in the future, so that nothing expires by Redis's real clock before the test is over. */
const MIDNIGHT_MS = (Math.floor(Date.now() / 86_400_000) + 2) * 86_400_000
const ELEVEN_MS = MIDNIGHT_MS - 3_600_000
const at = (ms: number): string => new Date(ms).toISOString()

const CLOCK = new URL('./moved-clock.ts', import.meta.url).href
const SLOW = tenantOf('edge', 'after admit')

let fleet: Fleet
let redis: Redis
let api: RunningApi
let worker: StoppingWorker
let key: string
let clockMs: number
const owned = new AsyncDisposableStack()

beforeAll(async () => {
  fleet = owned.use(await startFleet())
  redis = connectRedis(fleet.redisUrl, 'worker')
  owned.defer(() => redis.disconnect())
  await moveClock(ELEVEN_MS - 1)
  owned.defer(movedDate(() => clockMs))
  const policy = { min_isolation: 'none' as const }
  await fleet.createTenant('edge', { policy, caps: { tenant_daily: 3, agent_hourly: 2 } })
  await fleet.createTenant('waits', { policy, caps: { tenant_daily: 1, agent_hourly: 100 } })
  await fleet.createTenant(SLOW, { policy, caps: { tenant_daily: 10, agent_hourly: 10 } })
  worker = await startStoppingWorker(
    fleet,
    { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '8', NODE_OPTIONS: `--import ${CLOCK}` },
    'edge',
  )
  api = await fleet.runApi()
  key = (await fleet.store.keys.create('admin', 'test')).key
})
afterAll(() => owned.disposeAsync())

async function moveClock(ms: number): Promise<void> {
  clockMs = ms
  await redis.set(MOVED_CLOCK, ms)
}

async function call(path: string, body?: unknown): Promise<{ headers: Headers; json: unknown }> {
  const response = await fetch(`${api.url}/v1${path}`, {
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
  })
  return { headers: response.headers, json: await response.json() }
}

const program = (tenant: string, agent: string): ExecutionRequestInput =>
  fakeRequest(tenant, [{ print: 'out' }], agent)

const state = async (id: string): Promise<ExecutionState> =>
  executionStateSchema.parse((await call(`/executions/${id}`)).json)

async function run(tenant: string, agent: string): Promise<object> {
  const { headers, json } = await call('/executions?wait=30s', program(tenant, agent))
  const { ending, dimension, resets_at, caps } = json as Record<string, unknown>
  return { ending, dimension, resets_at, caps, left: headers.get('ratelimit') }
}

/** Number of charged executions in the day of that time, according to the audit rows. */
async function chargedIn(tenant: string, ms: number): Promise<number> {
  const { day } = await fleet.store.chargedCounts(tenant, ms)
  return day.bucket === Math.floor(ms / 86_400_000) ? day.count : 0
}

const uses = (day: number, dayEnds: number, hour: number, hourEnds: number): object => ({
  tenant_daily: { used: day, limit: 3, resets_at: at(dayEnds) },
  agent_hourly: { used: hour, limit: 2, resets_at: at(hourEnds) },
})

it('charges before and after the edge of an hour or day count in their own window', async () => {
  const okWith = (caps: object, left: string): object => ({ ending: 'ok', caps, left })
  expect(await run('edge', 'a')).toMatchObject(
    okWith(uses(1, MIDNIGHT_MS, 1, ELEVEN_MS), '"tenant-daily";r=2;t=3601, "agent-hourly";r=1;t=1'),
  )
  expect(await run('edge', 'a')).toMatchObject({ ending: 'ok' })
  expect(await run('edge', 'a')).toMatchObject({
    ending: 'cap_exceeded',
    dimension: 'agent_hourly',
    resets_at: at(ELEVEN_MS),
  })

  await moveClock(ELEVEN_MS)
  expect(await run('edge', 'a')).toMatchObject(
    okWith(uses(3, MIDNIGHT_MS, 1, MIDNIGHT_MS), '"tenant-daily";r=0;t=3600, "agent-hourly";r=1;t=3600'),
  )

  await moveClock(MIDNIGHT_MS - 1)
  expect(await run('edge', 'b')).toMatchObject({
    ending: 'cap_exceeded',
    dimension: 'tenant_daily',
    resets_at: at(MIDNIGHT_MS),
    left: '"tenant-daily";r=0;t=1, "agent-hourly";r=2;t=1',
  })

  await moveClock(MIDNIGHT_MS)
  expect(await run('edge', 'b')).toMatchObject(
    okWith(
      uses(1, MIDNIGHT_MS + 86_400_000, 1, MIDNIGHT_MS + 3_600_000),
      '"tenant-daily";r=2;t=86400, "agent-hourly";r=1;t=3600',
    ),
  )
  expect(await chargedIn('edge', MIDNIGHT_MS - 1)).toBe(3)
  expect(await chargedIn('edge', MIDNIGHT_MS)).toBe(1)
  expect(await auditRows(fleet, 'edge')).toHaveLength(6)
})

it('a refund of a charge from before midnight does not change the count after midnight', async () => {
  await moveClock(MIDNIGHT_MS - 1)
  const impossible = { ...program(SLOW, 'a'), min_isolation: 'gvisor' as const }
  const { json } = await call('/executions', impossible)
  const { execution_id: refunded } = json as { execution_id: string }
  await worker.stoppedAt(['after admit'])
  expect((await fleet.admission.usage(SLOW, 'a')).tenant_daily.used).toBe(1)

  await moveClock(MIDNIGHT_MS)
  const { json: after } = await call('/executions', program(SLOW, 'a'))
  const { execution_id: kept } = after as { execution_id: string }
  await expect
    .poll(async () => (await fleet.admission.usage(SLOW, 'a')).tenant_daily.used, { timeout: 20_000 })
    .toBe(1)
  await worker.goOn(['after admit'])
  const ending = (id: string) =>
    expect.poll(async () => (await state(id)).result?.ending, { timeout: 20_000 })
  await ending(refunded).toBe('provisioning')
  await ending(kept).toBe('ok')
  const { tenant_daily, agent_hourly } = await fleet.admission.usage(SLOW, 'a')
  expect([tenant_daily.used, agent_hourly?.used]).toEqual([1, 1])
  expect([await chargedIn(SLOW, MIDNIGHT_MS - 1), await chargedIn(SLOW, MIDNIGHT_MS)]).toEqual([0, 1])
})

it('a deferred execution waits until the window is over, and then runs', async () => {
  await moveClock(MIDNIGHT_MS - 1)
  expect(await run('waits', 'a')).toMatchObject({ ending: 'ok' })
  const { json } = await call('/executions', { ...program('waits', 'a'), on_cap: 'defer' })
  const { execution_id: id } = json as { execution_id: string }
  await expect.poll(() => redis.zscore(KEYS.parked, 'waits'), { timeout: 20_000 }).toBeTruthy()
  expect((await state(id)).status).toBe('queued')

  // Deferred executions come back spread over a second.
  await moveClock(MIDNIGHT_MS + 1000)
  await expect.poll(async () => (await state(id)).result?.ending, { timeout: 20_000 }).toBe('ok')
  expect((await state(id)).result?.caps?.tenant_daily).toEqual({
    used: 1,
    limit: 1,
    resets_at: at(MIDNIGHT_MS + 86_400_000),
  })
})
