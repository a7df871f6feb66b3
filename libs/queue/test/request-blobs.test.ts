/** How long the large parts of a request stay in Redis: only accepted executions may keep them. */
import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { connectRedis, createProducer, type Producer } from '../src/index.ts'
import { QUEUE_BOUNDS } from '../src/bounds.ts'
import { gate, requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
let owned = new AsyncDisposableStack()
beforeAll(async () => {
  bench = await startBench()
})
afterEach(async () => {
  await owned.disposeAsync()
  owned = new AsyncDisposableStack()
  await bench.clear()
})
afterAll(() => bench[Symbol.asyncDispose]())

const LARGE = 'x'.repeat(2 * QUEUE_BOUNDS.inlineBytes)
const OTHER = 'y'.repeat(2 * QUEUE_BOUNDS.inlineBytes)
const large = (content = LARGE, input: Parameters<typeof requestOf>[0] = {}) =>
  requestOf({ files: [{ path: 'a.txt', content }], ...input })

/** Remaining life in milliseconds of each blob. */
async function lives(): Promise<number[]> {
  const keys = await bench.redis.keys('{cofferdam}:blob:*')
  return Promise.all(keys.map((key) => bench.redis.pttl(key)))
}
/** Within a day of the full life, so it is not the short life of a minute. */
const KEPT = expect.toSatisfy((ms: number) => ms > QUEUE_BOUNDS.blobTtlMs - 24 * 3_600_000)
const SHORT = expect.toSatisfy((ms: number) => ms > 0 && ms <= 60_000)

const refuse = (tenant: string): Promise<void> =>
  bench.producer().setTenantLimits(tenant, { weight: 1, concurrency: null, max_queued: 0 })

type Enqueue = Redis['evalsha']
/**
 * A producer that calls `around` for each enqueue. It enqueues by EVALSHA, but reads the server's run ID by
 * EVAL, which does not go through `around`.
 */
function producerWith(around: (enqueue: () => Promise<unknown>) => Promise<unknown>): Producer {
  const connect = (role: 'producer' | 'subscriber'): Redis =>
    owned.adopt(connectRedis(bench.url, role), (redis) => redis.disconnect())
  const redis = connect('producer')
  const evalsha = redis.evalsha.bind(redis) as (...args: unknown[]) => Promise<unknown>
  redis.evalsha = ((...args: unknown[]) => around(() => evalsha(...args))) as unknown as Enqueue
  return owned.use(createProducer({ redis, subscriber: connect('subscriber') }))
}

/** A producer that stores its blobs, says so, and enqueues only when `go` is opened. */
function heldProducer() {
  const [stored, go] = [gate(), gate()]
  const producer = producerWith(async (enqueue) => {
    stored.open()
    await go.opened
    return enqueue()
  })
  return { producer, stored: stored.opened, go: () => go.open() }
}

describe('the large parts of a request', () => {
  it('stay for days once the execution is accepted', async () => {
    await bench.producer().put(large())
    expect(await lives()).toEqual([KEPT])
  })

  it('are gone when the queue of the tenant is full', async () => {
    await refuse('acme')
    await expect(bench.producer().put(large())).rejects.toMatchObject({ code: 'queue_full' })
    expect(await lives()).toEqual([])
  })

  it('are gone when the idempotency key names another body', async () => {
    const producer = bench.producer()
    await producer.put(requestOf({ idempotency_key: 'k' }))
    const again = producer.put(large(LARGE, { idempotency_key: 'k' }))
    await expect(again).rejects.toMatchObject({ code: 'idempotency_conflict' })
    expect(await lives()).toEqual([])
  })

  it('are stored once for a repeated put, and stay', async () => {
    const producer = bench.producer()
    const first = await producer.put(large(LARGE, { idempotency_key: 'k' }))
    const again = await producer.put(large(LARGE, { idempotency_key: 'k' }))
    expect(again).toMatchObject({ execution_id: first.execution_id, deduplicated: true })
    expect(await lives()).toEqual([KEPT])
  })

  it('stay for an accepted execution when a refused call has the same content', async () => {
    await refuse('globex')
    const { execution_id } = await bench.producer().put(large())
    const same = large(LARGE, { tenant_id: 'globex' })
    await expect(bench.producer().put(same)).rejects.toMatchObject({ code: 'queue_full' })
    expect(await lives()).toEqual([KEPT])
    expect(await bench.producer().request(execution_id)).toMatchObject(large())
  })

  it('that a refused call created stay for the execution that was accepted with them meanwhile', async () => {
    await refuse('globex')
    const slow = heldProducer()
    const refused = slow.producer.put(large(LARGE, { tenant_id: 'globex' }))
    const seen = expect(refused).rejects.toMatchObject({ code: 'queue_full' })
    await slow.stored
    const { execution_id } = await bench.producer().put(large())
    slow.go()
    await seen
    expect(await lives()).toEqual([KEPT])
    expect(await bench.producer().request(execution_id)).toMatchObject(large())
  })

  it('are stored again when a refused call deleted them before the enqueue', async () => {
    await refuse('globex')
    const [first, second] = [heldProducer(), heldProducer()]
    const refused = first.producer.put(large(LARGE, { tenant_id: 'globex' }))
    const seen = expect(refused).rejects.toMatchObject({ code: 'queue_full' })
    await first.stored
    const accepted = second.producer.put(large())
    await second.stored
    first.go()
    await seen
    second.go()
    const { execution_id } = await accepted
    expect(await lives()).toEqual([KEPT])
    expect(await bench.producer().request(execution_id)).toMatchObject(large())
  })

  it('live for a minute when the producer dies before the enqueue', async () => {
    const producer = producerWith(async () => {
      throw new Error('Connection is closed.')
    })
    await expect(producer.put(large())).rejects.toMatchObject({ code: 'queue_unavailable' })
    expect(await lives()).toEqual([SHORT])
  })

  it('stay when the answer to an accepted enqueue is lost', async () => {
    const producer = producerWith(async (enqueue) => {
      await enqueue()
      throw new Error('Connection is closed.')
    })
    await expect(producer.put(large())).rejects.toMatchObject({ code: 'queue_unavailable' })
    expect(await lives()).toEqual([KEPT])
  })

  it('stay when the enqueue is repeated because its answer was lost', async () => {
    const producer = producerWith(async (enqueue) => {
      await enqueue()
      return enqueue()
    })
    const { execution_id } = await producer.put(large())
    expect(await lives()).toEqual([KEPT])
    expect(await producer.request(execution_id)).toMatchObject(large())
  })

  it('of refused and accepted calls in one batch have each their own life', async () => {
    await refuse('globex')
    const producer = bench.producer()
    const answers = await Promise.allSettled([
      producer.put(large()),
      producer.put(large(OTHER, { tenant_id: 'globex' })),
      producer.put(requestOf()),
    ])
    expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(await lives()).toEqual([KEPT])
    const [accepted] = answers
    const id = accepted?.status === 'fulfilled' ? accepted.value.execution_id : 'exe_none'
    expect(await producer.request(id as `exe_${string}`)).toMatchObject(large())
  })

  it('that Redis does not keep make the put fail without an execution', async () => {
    const producer = producerWith(async (enqueue) => {
      await bench.redis.del(await bench.redis.keys('{cofferdam}:blob:*'))
      return enqueue()
    })
    await expect(producer.put(large())).rejects.toMatchObject({ code: 'queue_unavailable' })
    expect(await bench.producer().live('acme', 10)).toEqual([])
  })
})
