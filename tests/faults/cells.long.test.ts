/**
 * One fleet of two cells, as an operator would run it: an API that serves both, a worker for each, one
 * Postgres. Each cell dies once, also the one that REDIS_URL names.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RunningApi } from '@cofferdam/api'
import { cellOfId, type ExecutionResult } from '@cofferdam/contract'
import { startRedis, type RunningServer } from '@cofferdam/embedded'
import { connectRedis } from '@cofferdam/queue'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { fakeRequest } from './accounts.ts'

let fleet: Fleet
let east: RunningServer
let api: RunningApi
let adminKey: string
let folder: string
const eastRedis = () => startRedis({ dataDir: join(folder, 'east'), durable: false })

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cofferdam-cells-'))
  const configFile = join(folder, 'cofferdam.config.yaml')
  await writeFile(configFile, 'cells:\n  tenants:\n    east: 1\n  others: 0\n')
  ;[fleet, east] = await Promise.all([startFleet(), eastRedis()])
  for (const tenant of ['west', 'east'])
    await fleet.createTenant(tenant, { policy: { min_isolation: 'none' }, caps: { tenant_daily: 1000 } })
  adminKey = (await fleet.store.keys.create('admin', 'test')).key
  const common = { COFFERDAM_CONFIG: configFile, COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '4' }
  await fleet.startWorker(common)
  await fleet.startWorker({ ...common, REDIS_URL: east.url, COFFERDAM_CELL: '1' })
  api = await fleet.runApi({ COFFERDAM_CELLS: `1=${east.url}`, COFFERDAM_CONFIG: configFile })
})
afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]()
  await east?.stop()
  await rm(folder, { recursive: true, force: true })
})

interface Answer {
  status: number
  json: Record<string, unknown>
}

async function call(path: string, body?: object): Promise<Answer> {
  const answer = await fetch(`${api.url}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: answer.status, json: (await answer.json()) as Record<string, unknown> }
}

const runIn = (tenant: string) => call('/v1/executions?wait=60s', fakeRequest(tenant, [{ print: tenant }]))

async function resultOf(tenant: string): Promise<ExecutionResult> {
  const { status, json } = await runIn(tenant)
  expect(json, tenant).toMatchObject({ ok: true, stdout: `${tenant}\n` })
  expect(status).toBe(200)
  return json as unknown as ExecutionResult
}

/** Hash tags of the keys in a Redis that belong to a cell rather than to a tenant. */
async function tagsIn(url: string): Promise<string[]> {
  const redis = connectRedis(url, 'worker')
  const keys = await redis.keys('{cofferdam*')
  redis.disconnect()
  return [...new Set(keys.map((key) => key.slice(0, key.indexOf('}') + 1)))]
}

it('each tenant runs in its cell, and everybody is found, listed and counted through one API', async () => {
  const [west, inEast] = [await resultOf('west'), await resultOf('east')]
  expect([west, inEast].map(({ execution_id }) => cellOfId(execution_id))).toEqual([0, 1])
  expect(await tagsIn(fleet.redisUrl)).toEqual(['{cofferdam}'])
  expect(await tagsIn(east.url)).toEqual(['{cofferdam.1}'])
  for (const { execution_id: id } of [west, inEast])
    expect((await call(`/v1/executions/${id}`)).json).toMatchObject({ status: 'ended', execution_id: id })

  const listed = (await call('/v1/executions')).json['executions'] as { execution_id: string }[]
  expect(listed.map(({ execution_id }) => execution_id)).toEqual([inEast.execution_id, west.execution_id])
  const rows = (await call('/v1/audit/invocations')).json['invocations'] as { tenant_id: string }[]
  expect(rows.map(({ tenant_id }) => tenant_id).toSorted()).toEqual(['east', 'west'])
  expect((await call('/v1/queue')).json).toMatchObject({
    workers: [{ slots: 4 }, { slots: 4 }],
    cells_away: [],
  })
  const { backends } = (await call('/v1/backends')).json as { backends: { workers: object[] }[] }
  expect(backends.map(({ workers }) => workers.length)).toEqual([2])
  for (const tenant of ['west', 'east'])
    expect((await call(`/v1/tenants/${tenant}/usage`)).json).toMatchObject({ tenant_daily: { used: 1 } })
})

/**
 * Expects that, while one cell is away, only its own tenants get errors, and their ended executions can still
 * be read.
 */
async function expectOnlyOneIsCutOff(
  cell: number,
  { dead, alive, ended }: { dead: string; alive: string; ended: ExecutionResult },
): Promise<void> {
  for (let n = 0; n < 5; n += 1) await resultOf(alive)
  const { status, json } = await runIn(dead)
  expect([status, json['error']]).toEqual([
    503,
    expect.objectContaining({
      code: 'cell_unavailable',
      retry: 'later',
      details: expect.objectContaining({ cell }),
      hint: expect.stringContaining('start the Redis of the cell'),
    }),
  ])
  // The ended executions of the missing cell are in Postgres.
  expect((await call(`/v1/executions/${ended.execution_id}`)).json).toMatchObject({
    result: { stdout: `${dead}\n` },
  })
  expect((await call('/v1/queue')).json).toMatchObject({ workers: [{ slots: 4 }], cells_away: [cell] })
  expect((await call('/readyz')).status).toBe(200)
  const { executions } = (await call('/v1/executions')).json as { executions: object[] }
  expect(executions.length).toBeGreaterThanOrEqual(5)
}

it('a dead cell cuts off its own tenants only, with an error that names it, until it is back', async () => {
  const ended = await resultOf('east')
  await east.stop()
  await expectOnlyOneIsCutOff(1, { dead: 'east', alive: 'west', ended })
  east = await eastRedis()
  await expect.poll(async () => (await runIn('east')).status, { timeout: 120_000 }).toBe(200)
})

it('the same holds for the cell that REDIS_URL names', async () => {
  const ended = await resultOf('west')
  await fleet.changeRedis(() => expectOnlyOneIsCutOff(0, { dead: 'west', alive: 'east', ended }))
  await expect.poll(async () => (await runIn('west')).status, { timeout: 120_000 }).toBe(200)
})
