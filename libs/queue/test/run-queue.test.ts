import { Queue } from 'bullmq'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterAll(() => bench[Symbol.asyncDispose]())

describe('a release', () => {
  it('adds the job that BullMQ would have added, in the same step', async () => {
    const producer = bench.producer()
    await bench.redis.hset('{cofferdam}:window', 'total', 2, 'interactive', 2, 'routine', 1)
    const { execution_id } = await producer.put(requestOf())
    const prefix = '{cofferdam}:interactive'
    const ours = await bench.redis.hgetall(`${prefix}:${execution_id}`)
    const place = await bench.redis.zrange(`${prefix}:prioritized`, '0', '-1', 'WITHSCORES')
    const marker = await bench.redis.zrange(`${prefix}:marker`, '0', '-1', 'WITHSCORES')
    expect(ours).toMatchObject({ name: 'x', delay: '0', priority: '1' })

    await bench.redis.flushall()
    const queue = new Queue('interactive', { connection: bench.redis, prefix: '{cofferdam}' })
    await queue.add('x', {}, { jobId: execution_id, priority: 1, timestamp: Number(ours['timestamp']) })
    const theirs = await bench.redis.hgetall(`${prefix}:${execution_id}`)
    expect({ ...ours, opts: '' }).toEqual({ ...theirs, opts: '' })
    expect(place).toEqual(await bench.redis.zrange(`${prefix}:prioritized`, '0', '-1', 'WITHSCORES'))
    expect(marker).toEqual(await bench.redis.zrange(`${prefix}:marker`, '0', '-1', 'WITHSCORES'))
    await queue.close()
  })
})
