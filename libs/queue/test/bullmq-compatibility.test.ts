/**
 * Our scripts read and write BullMQ's private keys (src/bullmq-keys.ts). These tests run the same steps once
 * through BullMQ and once through our scripts, and compare all keys that remain.
 */
import { readFileSync } from 'node:fs'
import { Queue, Worker } from 'bullmq'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { QUEUE_BOUNDS } from '../src/bounds.ts'
import { BULLMQ_VERSION } from '../src/bullmq-keys.ts'
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

const PREFIX = '{cofferdam}:interactive'

/** Everything in BullMQ's keys, without timestamps and without its event stream, which nobody reads. */
async function runQueue(): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {}
  for (const key of (await bench.redis.keys(`${PREFIX}:*`)).toSorted()) {
    switch (await bench.redis.type(key)) {
      case 'hash': {
        const { processedOn, timestamp, ...fields } = await bench.redis.hgetall(key)
        found[key] = { ...fields, wasFetched: processedOn !== undefined, wasAdded: timestamp !== undefined }
        break
      }
      case 'zset':
        found[key] = await bench.redis.zrange(key, '0', '-1', 'WITHSCORES')
        break
      case 'list':
        found[key] = await bench.redis.lrange(key, 0, -1)
        break
      case 'set':
        found[key] = await bench.redis.smembers(key)
        break
      case 'string':
        found[key] = [await bench.redis.get(key), (await bench.redis.pttl(key)) > 0]
        break
    }
  }
  return found
}

type Fetched = NonNullable<Awaited<ReturnType<Worker['getNextJob']>>>

/** Releases `waiting` + 1 executions, lets BullMQ fetch one, and returns the keys that `goOn` leaves. */
async function afterFirst(waiting: number, goOn: (job: Fetched) => Promise<unknown>) {
  await bench.redis.flushall()
  await bench.redis.hset('{cofferdam}:window', 'total', 9, 'interactive', 9, 'routine', 1)
  await bench.redis.hset(`${PREFIX}:meta`, 'opts.maxLenEvents', 100)
  const producer = bench.producer()
  const ids: string[] = []
  for (let i = 0; i <= waiting; i++) ids.push((await producer.put(requestOf())).execution_id)
  const options = { connection: bench.redis, prefix: '{cofferdam}', name: WORKER, autorun: false }
  const worker = new Worker('interactive', null, { ...options, removeOnComplete: { count: 0 } })
  try {
    const job = await worker.getNextJob(TOKEN, { block: false })
    if (job === undefined) throw new Error('nothing was released')
    await goOn(job)
    const left = JSON.stringify(await runQueue())
    return JSON.parse(ids.reduce((text, id, i) => text.replaceAll(id, `id${i}`), left)) as unknown
  } finally {
    await worker.close()
  }
}

const WORKER = 'wrk_0123456789ab_going'
const TOKEN = 'token:1'

const next = (job: string, token: string, andNext: 0 | 1) =>
  runCoded(bench.redis, SCRIPTS.next, KEYS.window, ['interactive', job, token, andNext, WORKER, 30_000, ''])

it('depends on exactly the BullMQ version that the scripts were compared with', () => {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  const { dependencies } = JSON.parse(manifest) as { dependencies: Record<string, string> }
  expect(dependencies['bullmq']).toBe(BULLMQ_VERSION)
})

describe('a release', () => {
  it('adds the same job that BullMQ would have added, in one step with the release', async () => {
    const producer = bench.producer()
    await bench.redis.hset('{cofferdam}:window', 'total', 2, 'interactive', 2, 'routine', 1)
    const { execution_id } = await producer.put(requestOf())
    const ours = await bench.redis.hgetall(`${PREFIX}:${execution_id}`)
    const place = await bench.redis.zrange(`${PREFIX}:prioritized`, '0', '-1', 'WITHSCORES')
    const marker = await bench.redis.zrange(`${PREFIX}:marker`, '0', '-1', 'WITHSCORES')
    expect(ours).toMatchObject({ name: 'x', delay: '0', priority: '1' })

    await bench.redis.flushall()
    const queue = new Queue('interactive', { connection: bench.redis, prefix: '{cofferdam}' })
    await queue.add('x', {}, { jobId: execution_id, priority: 1, timestamp: Number(ours['timestamp']) })
    const theirs = await bench.redis.hgetall(`${PREFIX}:${execution_id}`)
    expect({ ...ours, opts: '' }).toEqual({ ...theirs, opts: '' })
    expect(place).toEqual(await bench.redis.zrange(`${PREFIX}:prioritized`, '0', '-1', 'WITHSCORES'))
    expect(marker).toEqual(await bench.redis.zrange(`${PREFIX}:marker`, '0', '-1', 'WITHSCORES'))
    await queue.close()
  })
})

describe('a worker that finishes a job', () => {
  it.each([
    { what: 'and takes the next job', waiting: 2, andNext: true },
    { what: 'and takes the last job', waiting: 1, andNext: true },
    { what: 'and finds no other job', waiting: 0, andNext: true },
    { what: 'and takes nothing while other jobs wait', waiting: 1, andNext: false },
  ])('$what leaves the same run queue that BullMQ would leave', async ({ waiting, andNext }) => {
    const theirs = await afterFirst(waiting, (job) => job.moveToCompleted(undefined, TOKEN, andNext))
    const ours = await afterFirst(waiting, (job) => next(job.id ?? '', TOKEN, andNext ? 1 : 0))
    expect(ours).toEqual(theirs)
  })

  it('does not touch a job that another worker holds by now', async () => {
    const untouched = await afterFirst(0, async () => undefined)
    const left = await afterFirst(0, (job) => next(job.id ?? '', 'of-somebody-else', 0))
    expect(left).toEqual(untouched)
  })

  it('ends stale jobs that it meets, and leaves redelivered jobs in the wait list', async () => {
    await afterFirst(3, async (job) => {
      const [stale, redelivered] = await bench.redis.zrange(`${PREFIX}:prioritized`, '0', '1')
      await bench.redis.hset(KEYS.record + stale, 's', 'ended')
      await bench.redis.zrem(`${PREFIX}:prioritized`, redelivered ?? '')
      await bench.redis.rpush(`${PREFIX}:wait`, redelivered ?? '')
      const first = await next(job.id ?? '', TOKEN, 1)
      expect(first.code).toBe('taken')
      expect([stale, redelivered]).not.toContain(first.rest.at(-1))
      expect(await bench.redis.lrange(`${PREFIX}:wait`, 0, -1)).toEqual([redelivered])
      expect(await bench.redis.exists(`${PREFIX}:${stale}`)).toBe(0)
    })
  })

  it('wakes a worker again if more stale jobs wait than one call can end', async () => {
    await afterFirst(1, async (job) => {
      const stale = Array.from({ length: QUEUE_BOUNDS.promoteMax }, (_, i) => [0, `cancelled${i}`]).flat()
      await bench.redis.zadd(`${PREFIX}:prioritized`, ...stale)
      // Remove the marker, as a worker does that was woken and now takes a job.
      await bench.redis.del(`${PREFIX}:marker`)
      expect((await next('', 'token:2', 1)).code).toBe('none')
      expect(await bench.redis.exists(`${PREFIX}:marker`)).toBe(1)
      expect((await next(job.id ?? '', 'token:3', 1)).code).toBe('taken')
    })
  })

  it("keeps BullMQ's event stream short", async () => {
    await afterFirst(0, async (job) => {
      const adding = bench.redis.pipeline()
      for (let i = 0; i < 1000; i++) adding.xadd(`${PREFIX}:events`, '*', 'event', 'active')
      await adding.exec()
      await next(job.id ?? '', TOKEN, 1)
      expect(await bench.redis.xlen(`${PREFIX}:events`)).toBeLessThan(300)
    })
  })

  it('takes nothing from a queue that was paused through BullMQ', async () => {
    await afterFirst(1, async (job) => {
      await bench.redis.hset(`${PREFIX}:meta`, 'paused', 1)
      expect((await next(job.id ?? '', TOKEN, 1)).code).toBe('none')
    })
  })
})

describe('a queue with a limit that was set through BullMQ', () => {
  it("is left to BullMQ's own fetch", async () => {
    await afterFirst(1, async () => {
      await bench.redis.hset(`${PREFIX}:meta`, 'concurrency', 5)
      expect((await next('', 'token:2', 1)).code).toBe('limited')
    })
    await bench.redis.flushall()
    await bench.redis.hset(`${PREFIX}:meta`, 'concurrency', 5)
    const producer = bench.producer()
    bench.consumer()
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
  })
})
