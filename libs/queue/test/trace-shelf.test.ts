import { isolatedRedis } from '@cofferdam/embedded/testing'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { connectRedis, createTraceShelf, readShelvedTrace, type TraceShelf } from '../src/index.ts'
import { KEYS } from '../src/testing.ts'
import { run, SCRIPTS } from '../src/scripts.ts'

const owned = new AsyncDisposableStack()
let redis: Redis
const errors: unknown[] = []

beforeAll(async () => {
  const server = await isolatedRedis()
  owned.defer(() => server.stop())
  redis = owned.adopt(connectRedis(server.url, 'producer'), (connection) => connection.disconnect())
})
afterAll(() => owned.disposeAsync())
beforeEach(async () => {
  errors.splice(0)
  await expect.poll(() => redis.status, { timeout: 20_000 }).toBe('ready')
  await redis.flushdb()
})

const open = (): TraceShelf => createTraceShelf({ redis, onError: (error) => errors.push(error) })
const offer = (
  shelf: TraceShelf,
  executionId: string,
  failed = false,
  spans: object[] = [{ of: executionId }],
): void => shelf.offer({ executionId, failed, read: () => spans })

describe('the trace shelf', () => {
  it('keeps for an hour what each process recorded of an execution', async () => {
    const [api, worker] = [open(), open()]
    offer(api, 'exe_1', false, [{ name: 'request' }])
    offer(worker, 'exe_1', false, [{ name: 'run' }, { name: 'publish' }])
    await Promise.all([api[Symbol.asyncDispose](), worker[Symbol.asyncDispose]()])
    const spans = await readShelvedTrace(redis, 'exe_1')
    expect(spans).toHaveLength(3)
    expect(spans).toEqual(expect.arrayContaining([{ name: 'request' }, { name: 'run' }, { name: 'publish' }]))
    const ms = await redis.pttl(`${KEYS.trace}exe_1`)
    expect(ms).toBeGreaterThan(3_500_000)
    expect(ms).toBeLessThanOrEqual(3_600_000)
    expect(await readShelvedTrace(redis, 'exe_2')).toEqual([])
    expect(errors).toEqual([])
  })

  it('keeps the last 8 parts of an execution that was taken many times', async () => {
    const shelf = open()
    for (let i = 0; i < 12; i++) offer(shelf, 'exe_1', false, [{ i }])
    await shelf[Symbol.asyncDispose]()
    const kept = (await readShelvedTrace(redis, 'exe_1')) as { i: number }[]
    expect(kept.map(({ i }) => i).toSorted((a, b) => a - b)).toEqual([4, 5, 6, 7, 8, 9, 10, 11])
  })

  it('writes soon, also before it is closed', async () => {
    await using shelf = open()
    offer(shelf, 'exe_1')
    await expect.poll(() => readShelvedTrace(redis, 'exe_1'), { timeout: 20_000 }).toEqual([{ of: 'exe_1' }])
  })

  it('keeps a bounded number at once, and prefers failed executions', async () => {
    const shelf = open()
    let read = 0
    for (let i = 0; i < 40; i++)
      shelf.offer({
        executionId: `exe_${i}`,
        failed: i >= 30,
        read: () => {
          read += 1
          return [{ i }]
        },
      })
    await shelf[Symbol.asyncDispose]()
    const kept = await redis.zrange(KEYS.traces, 0, '-1')
    expect([kept.length, read]).toEqual([16, 16])
    for (let i = 30; i < 40; i++) expect(kept).toContain(`exe_${i}`)
  })

  it('does not keep a trace that is too large', async () => {
    const shelf = open()
    offer(shelf, 'exe_large', true, [{ text: 'x'.repeat(17_000) }])
    offer(shelf, 'exe_small', false, [{ text: 'x'.repeat(15_000) }])
    await shelf[Symbol.asyncDispose]()
    expect(await redis.zrange(KEYS.traces, 0, '-1')).toEqual(['exe_small'])
  })

  it('drops the oldest trace when it is full', async () => {
    for (const id of ['a', 'b', 'c', 'd']) {
      const before = Date.now()
      await run(redis, SCRIPTS.shelve, KEYS.window, [id, '[1]', 8, 3, 60_000])
      // Traces are ordered by millisecond, so add the next trace in a later millisecond.
      await expect.poll(() => Date.now() > before, { timeout: 20_000 }).toBe(true)
    }
    expect(await redis.zrange(KEYS.traces, 0, '-1')).toEqual(['b', 'c', 'd'])
    expect(await readShelvedTrace(redis, 'a')).toEqual([])
    expect(await readShelvedTrace(redis, 'd')).toEqual([1])
  })

  it('only reports an error when Redis does not take a trace', async () => {
    const gone = connectRedis('redis://127.0.0.1:1', 'producer')
    const shelf = createTraceShelf({ redis: gone, onError: (error) => errors.push(error) })
    offer(shelf, 'exe_1')
    await shelf[Symbol.asyncDispose]()
    gone.disconnect()
    expect(errors).toHaveLength(1)
  })
})
