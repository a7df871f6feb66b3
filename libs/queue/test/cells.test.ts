/** Two cells of one fleet. They share a Redis server, so only their tags keep them apart. */
import { cellOfId, type ExecutionId } from '@cofferdam/contract'
import { startRedis, type RunningServer } from '@cofferdam/embedded'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  connectRedis,
  createCellsProducer,
  createConsumer,
  createProducer,
  directoryOf,
  type Consumer,
  type Producer,
} from '../src/index.ts'
import { endWith, requestOf } from './fixtures.ts'

const directory = directoryOf({ tenants: { east: 1, gone: 2, nowhere: 9 }, others: 0 })

let server: RunningServer
let away: RunningServer
const dataDir = mkdtempSync(join(tmpdir(), 'cofferdam-cells-'))
const connections: ReturnType<typeof connectRedis>[] = []
const consumers: Consumer[] = []
const ran = new Map<ExecutionId, number>()
const producers = new Map<number, Producer>()
let producer: Producer

beforeAll(async () => {
  ;[server, away] = await Promise.all([
    startRedis({ dataDir: join(dataDir, 'here'), durable: false }),
    startRedis({ dataDir: join(dataDir, 'away'), durable: false }),
  ])
  for (const cell of [0, 1, 2]) {
    const connect = (role: 'producer' | 'worker' | 'subscriber') => {
      const redis = connectRedis(cell === 2 ? away.url : server.url, role, cell)
      connections.push(redis)
      return redis
    }
    producers.set(cell, createProducer({ redis: connect('producer'), subscriber: connect('subscriber') }))
    if (cell === 2) continue
    const consumer = createConsumer({
      redis: connect('worker'),
      subscriber: connect('subscriber'),
      workerId: `wrk_0123456789ab_in-cell-${cell}`,
      slots: 2,
      lanes: ['interactive'],
      async process(taken) {
        ran.set(taken.executionId, cell)
        await endWith('ok')(taken)
      },
      onOutbox: async () => undefined,
    })
    consumer.start()
    consumers.push(consumer)
  }
  producer = createCellsProducer(producers, directory)
})
afterAll(async () => {
  await Promise.all(consumers.map((consumer) => consumer.drain({ graceMs: 1000 })))
  for (const one of producers.values()) await one[Symbol.asyncDispose]()
  for (const connection of connections) connection.disconnect()
  await Promise.all([server.stop(), away.stop()])
  rmSync(dataDir, { recursive: true, force: true })
})

const put = async (tenant: string, more: Parameters<typeof requestOf>[0] = {}): Promise<ExecutionId> =>
  (await producer.put(requestOf({ tenant_id: tenant, ...more }))).execution_id

it('runs each tenant in its cell, and finds the execution by its id alone', async () => {
  for (const [tenant, cell] of [
    ['west', 0],
    ['east', 1],
  ] as const) {
    const id = await put(tenant)
    expect(cellOfId(id)).toBe(cell)
    expect(await producer.wait(id, { timeoutMs: 30_000 })).toMatchObject({ ok: true, execution_id: id })
    expect(await producer.get(id)).toMatchObject({ status: 'ended', tenant_id: tenant })
    expect(ran.get(id)).toBe(cell)
    // Only the cell in the id has the execution, although both cells are on the same server.
    for (const [other, one] of producers)
      if (other !== 2) expect((await one.get(id)) !== null).toBe(other === cell)
  }
})

it('lists, counts and cancels over all cells', async () => {
  const delayed = { delay_ms: 600_000 }
  const ids = [await put('west', delayed), await put('east', delayed), await put('west', delayed)]
  const seen: string[] = []
  let before: string | undefined
  do {
    const page = await producer.livePage(null, { limit: 1, ...(before === undefined ? {} : { before }) })
    expect(page.states.length).toBeLessThanOrEqual(1)
    seen.push(...page.states.map((state) => state.execution_id))
    before = page.next ?? undefined
  } while (before !== undefined)
  expect(seen.toSorted()).toEqual(ids.toSorted())
  // Newest first. Nobody can say which of two cells was first in the same millisecond.
  const whole = (await producer.livePage(null, { limit: 100 })).states
  expect(whole.map((one) => one.execution_id).toSorted()).toEqual(ids.toSorted())
  const times = whole.map((one) => one.enqueued_at)
  expect(times).toEqual(times.toSorted().toReversed())
  const stats = await producer.stats()
  expect(stats.lanes.interactive.delayed).toBe(3)
  expect(stats.workers.map(({ worker_id }) => worker_id).toSorted()).toEqual([
    'wrk_0123456789ab_in-cell-0',
    'wrk_0123456789ab_in-cell-1',
  ])
  expect(stats.cells_away).toEqual([])
  for (const id of ids) expect(await producer.cancel(id)).toBe('cancelled')
  expect((await producer.livePage(null, { limit: 100 })).states).toEqual([])
})

it('names the cell that does not answer, and serves the others as before', async () => {
  const waiting = await put('gone', { delay_ms: 600_000 })
  expect(cellOfId(waiting)).toBe(2)
  await away.stop()
  const refused = { code: 'cell_unavailable', details: { cell: 2 } }
  // Each of these calls waits for a connection to the stopped cell. Make them all at once to wait only once.
  const [put2, get2, page2, stats, all, tenants] = await Promise.allSettled([
    put('gone'),
    producer.get(waiting),
    producer.livePage('gone', { limit: 1 }),
    producer.stats(),
    producer.livePage(null, { limit: 10 }),
    producer.tenants(),
  ])
  for (const one of [put2, get2, page2])
    expect(one).toMatchObject({ status: 'rejected', reason: expect.objectContaining(refused) })
  expect(stats).toMatchObject({ value: { cells_away: [2] } })
  expect(all).toMatchObject({ value: { states: [], next: null } })
  expect(tenants).toMatchObject({ value: { complete: false } })
  const id = await put('west')
  expect(await producer.wait(id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
})

it('says which cells it knows when the directory or an id names another one', async () => {
  await expect(put('nowhere')).rejects.toMatchObject({
    code: 'cell_unavailable',
    message: 'This process knows no cell 9; its cells are 0, 1, 2.',
    details: { cell: 9 },
  })
})
