import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { ExecutionId } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
const workers = new Set<ChildProcess>()
beforeAll(async () => {
  bench = await startBench()
})
afterAll(async () => {
  for (const worker of workers) worker.kill('SIGKILL')
  await bench[Symbol.asyncDispose]()
})

let born = 0
function startWorker(): ChildProcess {
  const id = `wrk_0123456789ab_${(born += 1)}`
  const worker = fork(new URL('./chaos-worker.ts', import.meta.url), [bench.url, id], { execArgv: [] })
  workers.add(worker)
  worker.on('exit', () => workers.delete(worker))
  return worker
}

const EXECUTIONS = 400
const TENANTS = 5

describe('workers that are killed and drained at random under all kinds of puts and cancels', () => {
  it(
    'end every accepted execution exactly once, begin no attempt twice, and leave every counter at zero',
    { timeout: 180_000 },
    async () => {
      const producer = bench.producer()
      for (let n = 0; n < TENANTS; n += 1)
        await producer.setTenantLimits(`t${n}`, { weight: n + 1, concurrency: 3, max_queued: null })
      for (let n = 0; n < 3; n += 1) startWorker()

      let isPutting = true
      const killing = (async () => {
        while (isPutting) {
          await pause(900)
          const victim = [...workers][Math.floor(Math.random() * workers.size)]
          victim?.kill(Math.random() < 0.6 ? 'SIGKILL' : 'SIGTERM')
          startWorker()
        }
      })()

      const ids: ExecutionId[] = []
      for (let n = 0; n < EXECUTIONS; n += 1) {
        const request = requestOf({
          tenant_id: `t${n % TENANTS}`,
          agent_id: `agent-${n % 7}`,
          lane: n % 4 === 0 ? 'routine' : 'interactive',
          priority: n % 10,
          idempotency_key: `k${n}`,
          ...(n % 10 === 0 ? { delay_ms: 300 } : {}),
          ...(n % 3 === 0 ? { session: { key: `s${n % 4}` } } : {}),
        })
        const [{ execution_id }, again] = await Promise.all([producer.put(request), producer.put(request)])
        expect(again.execution_id).toBe(execution_id)
        ids.push(execution_id)
        if (n % 9 === 0) await producer.cancel(ids[Math.floor(Math.random() * ids.length)]!)
        if (n % 20 === 0) await pause(200)
      }
      isPutting = false
      await killing

      const results = await Promise.all(ids.map((id) => producer.wait(id, { timeoutMs: 90_000 })))
      expect(results.filter((result) => result === null)).toEqual([])
      await vi.waitFor(async () => expect((await producer.stats()).outbox).toBe(0), 30_000)

      // Each attempt has at least one record. They may repeat: BullMQ and the outbox deliver at least once.
      const rows = await bench.redis.hgetall('test:rows')
      for (const result of results) {
        if (result === null) continue
        for (let attempt = 1; attempt <= result.attempt; attempt += 1)
          expect(Number(rows[`${result.execution_id} ${attempt}`])).toBeGreaterThanOrEqual(1)
        expect(rows[`${result.execution_id} ${result.attempt + 1}`]).toBeUndefined()
      }
      // No attempt begins twice. An attempt whose worker was killed after it began ends with worker_lost.
      const begun = await bench.redis.hgetall('test:begun')
      expect(Object.entries(begun).filter(([, count]) => count !== '1')).toEqual([])
      const endings = Object.groupBy(results, (result) => result?.ending ?? 'none')
      expect(Object.keys(endings).toSorted()).toEqual(expect.arrayContaining(['ok']))
      for (const { execution_id } of results.filter((result) => result !== null))
        expect(
          (
            await Array.fromAsync(producer.events(execution_id, { signal: AbortSignal.timeout(30_000) }))
          ).filter(({ event }) => event.type === 'ended'),
        ).toHaveLength(1)

      const { lanes } = await producer.stats()
      for (const lane of Object.values(lanes))
        expect([lane.queued, lane.delayed, lane.running, lane.oldest_age_ms]).toEqual([0, 0, 0, null])
      for (let n = 0; n < TENANTS; n += 1) {
        const state = await bench.redis.hgetall(`{cofferdam}:t:t${n}`)
        expect([state['n'], state['q:interactive'], state['q:routine'] ?? '0', state['d'] ?? '0']).toEqual([
          '0',
          '0',
          '0',
          '0',
        ])
        expect([state['h:interactive'] ?? '0', state['h:routine'] ?? '0']).toEqual(['0', '0'])
        expect(await producer.live(`t${n}`, 10)).toEqual([])
      }
      for (const pattern of ['handed:*', 'sq:*', 'b:*'])
        expect(await bench.redis.keys(`{cofferdam}:${pattern}`)).toEqual([])
      for (const key of await bench.redis.keys('{cofferdam}:s:*'))
        expect(await bench.redis.hexists(key, 'f')).toBe(0)
      const stopping = [...workers].map((worker) => {
        worker.kill('SIGTERM')
        return once(worker, 'exit')
      })
      await Promise.all(stopping)
    },
  )
})
