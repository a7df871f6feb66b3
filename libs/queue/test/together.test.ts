import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { connectRedis } from '../src/connect.ts'
import { KEYS } from '../src/testing.ts'
import { runCoded, SCRIPTS } from '../src/scripts.ts'
import { requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

const COUNT = 20

/** Number of script calls that the server has run. */
async function scriptCalls(): Promise<number> {
  const stats = await bench.redis.info('commandstats')
  const calls = [...stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)]
  return calls.reduce((sum, [, count]) => sum + Number(count), 0)
}

describe('queue calls of one turn of the event loop', () => {
  it('reach the server as one call, and each execution is accepted by itself', async () => {
    const producer = bench.producer()
    const putAll = () => Promise.all(Array.from({ length: COUNT }, () => producer.put(requestOf())))
    // The first round loads the script into the server.
    const first = await putAll()
    const before = await scriptCalls()
    const second = await putAll()
    expect(await scriptCalls()).toBe(before + 1)
    const ids = [...first, ...second].map(({ execution_id }) => execution_id)
    expect(new Set(ids).size).toBe(2 * COUNT)
    expect((await producer.stats()).lanes.interactive.queued).toBe(2 * COUNT)
    expect(second.map(({ position }) => position)).toEqual(Array.from({ length: COUNT }, (_, i) => COUNT + i))
  })

  it('fail one by one', async () => {
    const producer = bench.producer()
    const { execution_id } = await producer.put(requestOf())
    await bench.redis.set(`${KEYS.record}broken`, 'no hash')
    const begin = (id: string) =>
      runCoded(bench.redis, SCRIPTS.begin, KEYS.record + id, [id, 1, 'mark', '"attempt":1}', 1])
    const settled = await Promise.allSettled([begin(execution_id), begin('broken'), begin(execution_id)])
    expect(settled).toMatchObject([
      { status: 'fulfilled', value: { code: 'fenced' } },
      { status: 'rejected', reason: { message: expect.stringMatching(/^WRONGTYPE/) } },
      { status: 'fulfilled', value: { code: 'fenced' } },
    ])
  })

  it('switch to the new primary after a failover, as a single call does', async () => {
    using owned = new DisposableStack()
    const redis = owned.adopt(connectRedis(bench.url, 'worker'), (connection) => connection.disconnect())
    const next = () =>
      runCoded(redis, SCRIPTS.next, KEYS.window, ['interactive', '', 'token', 0, 'wrk', 1000, ''])
    await Promise.all([next(), next()])
    const closed = Promise.withResolvers<void>()
    redis.once('close', closed.resolve)
    await bench.redis.replicaof('127.0.0.1', 1)
    const answers = Promise.all([next(), next()])
    try {
      await Promise.race([closed.promise, answers])
    } finally {
      await bench.redis.replicaof('NO', 'ONE')
    }
    expect((await answers).map(({ code }) => code)).toEqual(['none', 'none'])
  })
})
