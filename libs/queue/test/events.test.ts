import { newExecutionId, type StoredEvent } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createEventTails } from '../src/event-tails.ts'
import { connectRedis, type Producer, type Taken } from '../src/index.ts'
import { KEYS } from '../src/testing.ts'
import { endWith, gate, recordOf, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

const patience = () => AbortSignal.timeout(30_000)
const output = (text: string) => ({ type: 'output', at_ms: 1, stream: 'stdout', text }) as const
const textOf = (events: StoredEvent[]): string =>
  events.map(({ event }) => (event.type === 'output' ? event.text : '')).join('')

/** Collects the events of an execution until `ended`. */
const follow = (producer: Producer, id: Taken['executionId'], after?: string): Promise<StoredEvent[]> =>
  Array.fromAsync(producer.events(id, { signal: patience(), ...(after === undefined ? {} : { after }) }))

describe('live events', () => {
  it('reach a reader while the program runs', async () => {
    const producer = bench.producer()
    const seen = gate()
    bench.consumer({
      async process(taken) {
        taken.emit(output('early'))
        await seen.opened
        await endWith('ok')(taken)
      },
    })
    const { execution_id } = await producer.put(requestOf())
    const types: string[] = []
    for await (const { event } of producer.events(execution_id, { signal: patience() })) {
      types.push(event.type)
      if (event.type === 'output') seen.open()
    }
    expect(types).toEqual(['queued', 'output', 'ended'])
  })

  it('reach many readers of many executions over one connection', async () => {
    const producer = bench.producer()
    const start = gate()
    bench.consumer({
      slots: 20,
      async process(taken) {
        await start.opened
        for (let n = 0; n < 5; n += 1)
          taken.emit({ type: 'notice', at_ms: n, message: `${taken.executionId} ${n}` })
        await endWith('ok')(taken)
      },
    })
    const accepted = await Promise.all(Array.from({ length: 20 }, () => producer.put(requestOf())))
    const connections = async () =>
      ((await bench.redis.client('LIST')) as string).split('name=cofferdam-events ').length - 1
    const readers = accepted.flatMap(({ execution_id }) => [
      follow(producer, execution_id),
      follow(producer, execution_id),
    ])
    await vi.waitFor(async () => expect(await connections()).toBe(1), 20_000)
    start.open()
    const all = await Promise.all(readers)
    for (const [n, events] of all.entries()) {
      const id = accepted[Math.floor(n / 2)]!.execution_id
      expect(events.map(({ event }) => (event.type === 'notice' ? event.message : event.type))).toEqual([
        'queued',
        ...Array.from({ length: 5 }, (_, m) => `${id} ${m}`),
        'ended',
      ])
    }
    // The connection is closed when the last reader leaves.
    await vi.waitFor(async () => expect(await connections()).toBe(0), 20_000)
  })

  it('join output into entries of at most 16 KiB, in order, and never split a UTF-8 character', async () => {
    const producer = bench.producer()
    const big = 'ä€😀x'.repeat(12_345)
    bench.consumer({
      async process(taken) {
        for (let n = 0; n < 1000; n += 1) taken.emit(output(`${n},`))
        taken.emit(output(big))
        taken.emit(output('tail'))
        await endWith('ok')(taken)
      },
    })
    const { execution_id } = await producer.put(requestOf())
    const events = await follow(producer, execution_id)
    expect(textOf(events)).toBe(`${Array.from({ length: 1000 }, (_, n) => `${n},`).join('')}${big}tail`)
    const sizes = events.map(({ event }) => (event.type === 'output' ? Buffer.byteLength(event.text) : 0))
    expect(Math.max(...sizes)).toBeLessThanOrEqual(16 * 1024)
    expect(events.length).toBeLessThan(20)
  })

  it('continue after the last event that the reader has seen', async () => {
    const producer = bench.producer()
    bench.consumer({
      async process(taken) {
        for (const message of ['a', 'b', 'c']) taken.emit({ type: 'notice', at_ms: 1, message })
        await endWith('ok')(taken)
      },
    })
    const { execution_id } = await producer.put(requestOf())
    const events = await follow(producer, execution_id)
    expect(events).toHaveLength(5)
    for (const [n, { id }] of events.entries())
      expect(await follow(producer, execution_id, id)).toEqual(events.slice(n + 1))
    await expect(follow(producer, execution_id, 'yesterday')).rejects.toMatchObject({
      code: 'invalid_request',
    })
  })

  it('start with a notice if earlier events were trimmed', async () => {
    const producer = bench.producer()
    bench.consumer({
      async process(taken) {
        for (let n = 0; n < 2500; n += 1) taken.emit({ type: 'notice', at_ms: 1, message: `${n}` })
        await endWith('ok')(taken)
      },
    })
    const { execution_id } = await producer.put(requestOf())
    await producer.wait(execution_id, { timeoutMs: 30_000 })
    const events = await follow(producer, execution_id)
    expect(events[0]?.event).toMatchObject({
      type: 'notice',
      message: expect.stringContaining('Earlier events are gone'),
    })
    expect(events.at(-1)?.event.type).toBe('ended')
    expect(events.length).toBeGreaterThan(1900)
    expect(events.length).toBeLessThan(2300)
    // A reader that resumes after the notice continues with the first entry that is left.
    expect((await follow(producer, execution_id, events[0]!.id))[1]).toEqual(events[1])
    expect(await follow(producer, execution_id, events[1]!.id)).toEqual(events.slice(2))
  })

  it('of one large output keep its last part and use at most 8 MiB of Redis as JSON', async () => {
    const producer = bench.producer()
    // JSON writes each of these characters with six bytes, 18 MiB in total.
    const flood = `${'\u0001'.repeat(3 << 20)}the last words`
    bench.consumer({
      async process(taken) {
        taken.emit(output(flood))
        await endWith('ok')(taken)
      },
    })
    const { execution_id } = await producer.put(requestOf())
    await producer.wait(execution_id, { timeoutMs: 30_000 })
    const bytes = Number(await bench.redis.memory('USAGE', KEYS.events + execution_id, 'SAMPLES', 0))
    // Redis rounds each allocation up by at most a quarter.
    expect(bytes).toBeLessThan(10 << 20)
    const events = await follow(producer, execution_id)
    expect(events[0]?.event).toMatchObject({
      type: 'notice',
      message: expect.stringContaining('Earlier events are gone'),
    })
    // As much of the output is kept as fits.
    expect(textOf(events).length).toBeGreaterThan((7 << 20) / 6)
    expect(flood.endsWith(textOf(events))).toBe(true)
    expect(events.at(-1)?.event.type).toBe('ended')
  })

  it('of several attempts that each print 7.5 MiB use at most half as much more', async () => {
    const producer = bench.producer()
    // 7.5 MiB as JSON, which is just below the size at which an attempt drops its own events.
    const flood = '\u0001'.repeat((5 << 20) / 4)
    bench.consumer({
      async process(taken) {
        await taken.begin(sandboxRef(), SANDBOX_INFO)
        taken.emit(output(`${flood}${taken.attempt}`))
        if (taken.attempt < 4) await taken.retry(recordOf(taken, 'sandbox_lost'), { slotMs: 1 })
        else await endWith('ok')(taken)
      },
    })
    const { execution_id } = await producer.put(requestOf())
    await producer.wait(execution_id, { timeoutMs: 30_000 })
    const bytes = Number(await bench.redis.memory('USAGE', KEYS.events + execution_id, 'SAMPLES', 0))
    expect(bytes).toBeLessThan(15 << 20)
    const said = textOf(await follow(producer, execution_id))
    expect(said.endsWith(`${flood}4`)).toBe(true)
    // The reader sees how attempt 3 ended, and nothing of attempt 2.
    expect(said).toContain('\u00013')
    expect(said).not.toContain('\u00012')
  })

  it('do not include those of a worker that has lost the execution', async () => {
    const producer = bench.producer()
    const proceed = gate()
    const first = gate()
    bench.consumer({
      async process(taken) {
        first.open()
        await proceed.opened
        taken.emit(output('ghost'))
        await taken.settle(recordOf(taken, 'ok'), { slotMs: 1 }).catch(() => undefined)
      },
    })
    const { execution_id } = await producer.put(requestOf())
    await first.opened
    // Does what the take of another worker would do.
    await bench.redis.hincrby(`{cofferdam}:x:${execution_id}`, 'f', 1)
    proceed.open()
    await vi.waitFor(async () => expect((await producer.get(execution_id))?.status).toBe('ended'), 20_000)
    expect((await follow(producer, execution_id)).map(({ event }) => event.type)).toEqual([
      'queued',
      'output',
      'ended',
    ])
  })

  it('reach a new reader while the answer to an earlier wake-up is late', async () => {
    const redis = connectRedis(bench.url, 'producer')
    await expect.poll(() => redis.status, { timeout: 20_000 }).toBe('ready')
    // Redis carries out each wake-up at once, but its answer is held back until the test lets it pass.
    const answered = gate()
    const multi = redis.multi.bind(redis)
    redis.multi = ((...args: Parameters<typeof multi>) => {
      const transaction = multi(...args)
      const exec = transaction.exec.bind(transaction)
      transaction.exec = async () => {
        const results = await exec()
        await answered.opened
        return results
      }
      return transaction
    }) as typeof redis.multi
    // With this block time a read ends only with an event or a wake-up.
    const tails = createEventTails(redis, 'late', 60_000)
    const happens = (id: string) => bench.redis.xadd(KEYS.events + id, '*', 'd', '{}')
    const never = new AbortController().signal
    try {
      const ids = [newExecutionId(), newExecutionId()] as const
      using _reading = tails.follow(newExecutionId(), '0-0')
      using woken = tails.follow(ids[0], '0-0')
      await happens(ids[0])
      // The reader has consumed its wake-up, and the next read is in flight.
      expect(await woken.next(20_000, never)).toHaveLength(1)
      using late = tails.follow(ids[1], '0-0')
      answered.open()
      await happens(ids[1])
      expect(await late.next(20_000, never)).toHaveLength(1)
    } finally {
      tails.close()
      redis.disconnect()
    }
  })

  it('end for a reader when its signal aborts', async () => {
    const producer = bench.producer()
    const { execution_id } = await producer.put(requestOf())
    const stop = new AbortController()
    const types: string[] = []
    for await (const { event } of producer.events(execution_id, { signal: stop.signal })) {
      types.push(event.type)
      setTimeout(() => stop.abort(), 20)
    }
    expect(types).toEqual(['queued'])
  })

  it('can be read back as text by the worker that ends the attempt', async () => {
    const producer = bench.producer()
    const seen: unknown[] = []
    bench.consumer({
      async process(taken) {
        await taken.begin(sandboxRef(), SANDBOX_INFO)
        for (const [stream, text] of [
          ['stdout', 'a€'],
          ['stderr', 'e'],
          ['stdout', 'b'],
        ] as const)
          taken.emit({ type: 'output', at_ms: 1, stream, text })
        await expect.poll(async () => (await taken.streamed()).stdout, { timeout: 20_000 }).toBe('a€b')
        seen.push(await taken.streamed())
        await endWith('ok')(taken)
      },
    })
    const { execution_id } = await producer.put(requestOf())
    await producer.wait(execution_id, { timeoutMs: 30_000 })
    expect(seen).toEqual([{ stdout: 'a€b', stderr: 'e', isWhole: true }])
  })
})
