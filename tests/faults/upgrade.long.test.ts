/**
 * A fleet of the earlier build with 20,000 executions in its queue is upgraded under load, goes back, and is
 * upgraded again. Workers and API processes of both builds serve it side by side, and some are killed. All
 * the time, callers of the newer build enqueue more and wait for the results.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { Accepted, ExecutionId, ExecutionResult } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { connectRedis } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import { migrate } from '@cofferdam/store'
import { expect } from 'vitest'
import { unpackEarlierBuild, type EarlierBuild } from '../earlier-build.ts'
import { startFleet, type Fleet } from '../fleet.ts'
import { expectExactBooks, expectNothingHeld, fakeRequest } from './accounts.ts'

const EXECUTIONS = 20_000
const TENANTS = ['one', 'two', 'three', 'four']
/** A killed worker may lose as many executions as it has slots. */
const SLOTS = 8
const WORKER = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: String(SLOTS) }
const ASKED_AT_ONCE = 200
const PATIENCE_MS = 1_500_000

/** Runs on the earlier build: makes the tenants and enqueues everything. Prints the IDs by tenant. */
const SEED = `
import { createStore } from '@cofferdam/store'
// Up to commit d919028f, @cofferdam/client itself exported the client of the queue.
const { createQueueClient, createClient } = await import('@cofferdam/client/queue').catch(
  () => import('@cofferdam/client'),
)
const { REDIS_URL: redisUrl, DATABASE_URL: databaseUrl, BLOBS: blobDir, TENANTS, EXECUTIONS } = process.env
const tenants = TENANTS.split(',')
const store = await createStore({ databaseUrl, blobDir, timeouts: { connectMs: 30_000, statementMs: 30_000 } })
for (const tenant_id of [...tenants, 'through-http', 'callers'])
  await store.tenants.create(
    { tenant_id, policy: { min_isolation: 'none' }, caps: { tenant_daily: 100_000, agent_hourly: 100_000 } },
    'test',
  )
await store[Symbol.asyncDispose]()
const client = (createQueueClient ?? createClient)({ redisUrl })
const ids = Object.fromEntries(tenants.map((tenant) => [tenant, []]))
for (let n = 0; n < Number(EXECUTIONS); n += 100)
  await Promise.all(
    Array.from({ length: 100 }, async (_, i) => {
      const tenant = tenants[(n + i) % tenants.length]
      const { execution_id } = await client.enqueue({
        tenant_id: tenant,
        agent_id: 'agent-' + (i % 7),
        backend: 'fake',
        program: { type: 'script', language: 'python', source: JSON.stringify({ print: String(n + i) }) },
      })
      ids[tenant].push(execution_id)
    }),
  )
await client.close()
console.log(JSON.stringify(ids))
`

needs('git-history').it(
  'upgrades and goes back with 20,000 executions waiting, and accounts for each',
  async () => {
    await using earlier = await unpackEarlierBuild()
    await using fleet = await startFleet({ schema: earlier.schema })
    const redis = connectRedis(fleet.redisUrl, 'worker')
    const seeded = await earlier.script(SEED, {
      REDIS_URL: fleet.redisUrl,
      DATABASE_URL: fleet.databaseUrl,
      BLOBS: path.join(fleet.dataDir, 'blobs'),
      TENANTS: TENANTS.join(','),
      EXECUTIONS: String(EXECUTIONS),
    })
    const idsOf = JSON.parse(seeded) as Record<string, ExecutionId[]>
    const left = () => redis.zcard(KEYS.allLive)
    const untilLeft = (count: number) =>
      expect.poll(left, { timeout: PATIENCE_MS, interval: 100 }).toBeLessThanOrEqual(count)
    const startOld = () => fleet.startWorker(WORKER, earlier.file('apps/worker/src/main.ts'))
    const startNew = () => fleet.startWorker(WORKER)
    expect(await left()).toBe(EXECUTIONS)

    const [first, second] = await Promise.all([startOld(), startOld()])
    const callers = startCallers(fleet)
    await untilLeft(EXECUTIONS - 1000)
    await migrate(fleet.databaseUrl)
    // Upgrade: the first worker of the earlier build is killed, the second one drains.
    const third = await startNew()
    await first.kill()
    await throughBothApis(fleet, earlier)
    await untilLeft(EXECUTIONS - 5000)
    const fourth = await startNew()
    expect(await second.stop()).toBe(0)
    const ofNew = new Set(await redis.hkeys(KEYS.versions))
    expect(ofNew.size).toBe(2)
    await untilLeft(EXECUTIONS - 9000)
    // Back to the earlier build: one new worker drains. The other is killed while a worker of the earlier
    // build works beside it.
    const fifth = await startOld()
    expect(await third.stop()).toBe(0)
    await untilLeft(EXECUTIONS - 11_000)
    await fourth.kill()
    await untilLeft(EXECUTIONS - 14_000)
    // And forward again.
    const sixth = await startNew()
    for (const worker of await redis.hkeys(KEYS.versions)) ofNew.add(worker)
    expect(await fifth.stop()).toBe(0)
    const called = await callers.stop()
    await untilLeft(0)

    const endings: Record<string, number> = {}
    const ranOn = { old: 0, new: 0 }
    for (const tenant of TENANTS) {
      const accepted = (idsOf[tenant] ?? []).map((execution_id) => ({ execution_id }))
      const results = await resultsOf(fleet, accepted)
      for (const { ending } of results) endings[ending] = (endings[ending] ?? 0) + 1
      await expectExactBooks(fleet, tenant, accepted, results)
      const workers = await Promise.all(
        accepted.map(({ execution_id: id }) => redis.hget(KEYS.record + id, 'w')),
      )
      for (const worker of workers) ranOn[ofNew.has(worker ?? '') ? 'new' : 'old'] += 1
    }
    console.info(JSON.stringify({ endings, ranOn }))
    for (const { ending } of called) endings[ending] = (endings[ending] ?? 0) + 1
    await expectExactBooks(fleet, 'callers', called, called)
    const { ok = 0, worker_lost: lost = 0 } = endings
    expect(called.length).toBeGreaterThan(100)
    expect(ok + lost).toBe(EXECUTIONS + called.length)
    expect(lost).toBeLessThanOrEqual(2 * SLOTS)
    expect(Math.min(ranOn.old, ranOn.new)).toBeGreaterThan(1000)
    await expectNothingHeld(fleet)
    expect(await sixth.stop()).toBe(0)
    redis.disconnect()
  },
  PATIENCE_MS + 300_000,
)

/** Two callers that each enqueue an execution and wait for its result, again and again. */
function startCallers(fleet: Fleet): { stop(): Promise<ExecutionResult[]> } {
  let isOver = false
  const call = async (): Promise<ExecutionResult[]> => {
    const results: ExecutionResult[] = []
    while (!isOver) {
      const { execution_id: id } = await fleet.client.enqueue(fakeRequest('callers', [{ print: 'called' }]))
      const result = await fleet.client.wait(id, { timeoutMs: PATIENCE_MS })
      if (result === null) throw new Error(`${id} did not end`)
      results.push(result)
    }
    return results
  }
  const running = Promise.all([call(), call()])
  return {
    async stop() {
      isOver = true
      return (await running).flat()
    },
  }
}

/** Waits for all, in batches. */
async function resultsOf(
  fleet: Fleet,
  accepted: readonly Pick<Accepted, 'execution_id'>[],
): Promise<ExecutionResult[]> {
  const results: (ExecutionResult | null)[] = []
  for (let from = 0; from < accepted.length; from += ASKED_AT_ONCE)
    results.push(
      ...(await Promise.all(
        accepted
          .slice(from, from + ASKED_AT_ONCE)
          .map(({ execution_id: id }) => fleet.client.wait(id, { timeoutMs: 120_000 })),
      )),
    )
  return results.filter((result) => result !== null)
}

/** Each build's API accepts an execution, and the other build's API returns its result. */
async function throughBothApis(fleet: Fleet, earlier: EarlierBuild): Promise<void> {
  const { key } = await fleet.store.keys.create('admin', 'upgrade', { actor: 'test' })
  const apis = await Promise.all(
    [earlier.file('apps/api/src/main.ts'), new URL('../../apps/api/src/main.ts', import.meta.url)].map(
      (entry) => startApi(fleet, entry),
    ),
  )
  const ask = async (url: string, method: string, body?: object): Promise<Record<string, unknown>> => {
    const response = await fetch(url, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    expect(response.status, url).toBeLessThan(300)
    return (await response.json()) as Record<string, unknown>
  }
  try {
    for (const [at, { url }] of apis.entries()) {
      const other = apis[1 - at]?.url ?? ''
      const { execution_id: id } = await ask(`${url}/v1/executions`, 'POST', {
        tenant_id: 'through-http',
        agent_id: 'a',
        backend: 'fake',
        program: { type: 'script', language: 'python', source: '{"print": "hello"}' },
      })
      await expect
        .poll(() => ask(`${other}/v1/executions/${String(id)}`, 'GET'), { timeout: 120_000 })
        .toMatchObject({ status: 'ended', result: { ok: true } })
    }
  } finally {
    await Promise.all(
      apis.map(async ({ process: child }) => {
        child.kill('SIGTERM')
        await once(child, 'exit')
      }),
    )
  }
}

async function startApi(fleet: Fleet, entry: URL): Promise<{ url: string; process: ChildProcess }> {
  const child = spawn(process.execPath, [entry.pathname], {
    env: {
      PATH: process.env['PATH'],
      HOME: os.tmpdir(),
      REDIS_URL: fleet.redisUrl,
      DATABASE_URL: fleet.databaseUrl,
      COFFERDAM_DATA_DIR: fleet.dataDir,
      COFFERDAM_PORT: '0',
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /listens on (\S+)/.exec(line)?.[1]
    if (url !== undefined) return { url, process: child }
  }
  throw new Error(`${entry.pathname} ended before it listened`)
}
