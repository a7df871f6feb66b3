/** Runs the queue and the caps on a Redis Cluster, and kills the node that has the queue. */
import { executionRequestSchema, newWorkerId, type Accepted, type ExecutionId } from '@cofferdam/contract'
import { composeUnstarted, connectRedis, createConsumer, createProducer } from '@cofferdam/queue'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { endingsOf, expectExactBooks, fakeRequest } from './accounts.ts'
import { startRedisCluster, type RedisCluster } from './servers/redis-cluster.ts'

const withServers = needs('redis-server', 'setpriv')

let cluster: RedisCluster
let fleet: Fleet
beforeAll(async () => {
  cluster = await startRedisCluster()
  fleet = await startFleet({ redisUrl: cluster.url })
  await Promise.all([fleet.startWorker(WORKER), fleet.startWorker(WORKER)])
})
afterAll(async () => {
  await fleet[Symbol.asyncDispose]()
  await cluster[Symbol.asyncDispose]()
})

const WORKER = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '4' }
const GENEROUS = {
  policy: { min_isolation: 'none' as const },
  caps: { tenant_daily: 100_000, agent_hourly: 100_000 },
}

withServers.it('a cluster runs, streams, deduplicates and cancels executions exactly', async () => {
  // The counters of these tenants are in hash slots of all three nodes.
  for (const tenant of ['one', 'two', 'three', 'four']) await fleet.createTenant(tenant, GENEROUS)
  for (const tenant of ['one', 'two', 'three', 'four']) {
    const accepted: Accepted[] = []
    for (let n = 0; n < 10; n += 1)
      accepted.push(await fleet.client.enqueue(fakeRequest(tenant, [{ print: `${n}` }], `agent-${n % 3}`)))
    const results = await endingsOf(fleet, accepted, 60_000)
    expect(results.map((result) => result.stdout)).toEqual(accepted.map((_, n) => `${n}\n`))
    await expectExactBooks(fleet, tenant, accepted, results)
  }

  await fleet.createTenant('keys', { ...GENEROUS, caps: { ...GENEROUS.caps, concurrency: 1 } })
  // Run one execution first, because the scheduler learns the tenant's limits only when a worker reads its
  // policy.
  const first = await fleet.client.run(fakeRequest('keys', []), { timeoutMs: 30_000 })
  const running = await fleet.client.enqueue({
    ...fakeRequest('keys', [{ print: 'seen' }, { sleep_ms: 600_000 }]),
    idempotency_key: 'k',
  })
  const again = await fleet.client.enqueue({
    ...fakeRequest('keys', [{ print: 'seen' }, { sleep_ms: 600_000 }]),
    idempotency_key: 'k',
  })
  expect(again).toMatchObject({ execution_id: running.execution_id, deduplicated: true })
  const waiting = await fleet.client.enqueue(fakeRequest('keys', []))
  for await (const { event } of fleet.client.stream(running.execution_id)) if (event.type === 'output') break
  expect(await fleet.client.cancel(waiting.execution_id)).toBe('cancelled')
  expect(await fleet.client.cancel(running.execution_id)).toBe('cancelling')
  const results = await endingsOf(fleet, [running, waiting], 30_000)
  expect(results.map((result) => result.ending)).toEqual(['cancelled', 'cancelled'])
  await expectExactBooks(fleet, 'keys', [first, running, waiting], [first, ...results])
})

withServers.it('a cluster serves a light tenant beside a long backlog of another tenant', async () => {
  await fleet.createTenant('flood', GENEROUS)
  await fleet.createTenant('light', GENEROUS)
  // Work of 30 s for eight slots, enqueued at once.
  const flood = await Promise.all(
    Array.from({ length: 120 }, (_, n) =>
      fleet.client.enqueue(fakeRequest('flood', [{ sleep_ms: 2000 }], `agent-${n % 9}`)),
    ),
  )
  const light = await fleet.client.run(fakeRequest('light', []), { timeoutMs: 30_000 })
  expect(light.ok).toBe(true)
  const last = await fleet.client.get(flood.at(-1)?.execution_id ?? 'exe_')
  expect(last?.status, 'the flood was over before the light tenant was served').not.toBe('ended')
  for (const { execution_id } of flood) await fleet.client.cancel(execution_id)
  const results = await endingsOf(fleet, flood, 60_000)
  expect(results.filter((result) => !result.ok && result.ending !== 'cancelled')).toEqual([])
  await expectExactBooks(fleet, 'flood', flood, results)
})

withServers.it('executions continue after the node that has the queue was killed and restarted', async () => {
  await fleet.createTenant('node', GENEROUS)
  const accepted: Accepted[] = []
  for (let n = 0; n < 40; n += 1)
    accepted.push(await fleet.client.enqueue(fakeRequest('node', [{ sleep_ms: 40 }, { print: `${n}` }])))
  await cluster.restart(await cluster.nodeOf('{cofferdam}:'))
  const results = await endingsOf(fleet, accepted, 60_000)
  expect(results.filter((result) => !result.ok)).toEqual([])
  await expectExactBooks(fleet, 'node', accepted, results)
})

withServers.it('a cluster runs the executions of a session one at a time and in order', async () => {
  const connections = (['producer', 'worker', 'subscriber'] as const).map((role) =>
    connectRedis(cluster.url, role),
  )
  const [producing, redis, subscriber] = connections
  if (producing === undefined || redis === undefined || subscriber === undefined)
    throw new Error('unreachable')
  const order: string[] = []
  let running = 0
  let most = 0
  await fleet.stopWorkers()
  const producer = createProducer({ redis: producing, subscriber })
  const consumer = createConsumer({
    redis,
    subscriber,
    workerId: newWorkerId('0123456789ab'),
    slots: 4,
    lanes: ['interactive'],
    async process(taken) {
      order.push(taken.executionId)
      most = Math.max(most, (running += 1))
      const { executionId, attempt, request, enqueuedAtMs, takenAtMs } = taken
      const ended = { ending: 'ok', reason: 'test', message: 'test', traceparent: '' } as const
      const record = composeUnstarted({
        ...ended,
        executionId,
        attempt,
        request,
        enqueuedAtMs,
        nowMs: takenAtMs,
      })
      running -= 1
      await taken.settle(record, { slotMs: 1 })
    },
    onOutbox: async () => undefined,
  })
  consumer.start()
  const put: ExecutionId[] = []
  for (let n = 0; n < 12; n += 1) {
    const request = executionRequestSchema.parse({ ...fakeRequest('line', []), session: { key: 'line' } })
    put.push((await producer.put(request)).execution_id)
  }
  for (const id of put) expect(await producer.wait(id, { timeoutMs: 30_000 })).not.toBeNull()
  expect(order).toEqual(put)
  expect(most).toBe(1)
  await consumer.drain({ graceMs: 1000 })
  await producer[Symbol.asyncDispose]()
  for (const connection of connections) connection.disconnect()
})
