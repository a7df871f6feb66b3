import { newExecutionId, type StoredEvent } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createEventTails } from '../src/event-tails.ts'
import { connectRedis, KEYS, type Producer, type Taken } from '../src/index.ts'
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

/** Follows until `ended`. */
const follow = (producer: Producer, id: Taken['executionId'], after?: string): Promise<StoredEvent[]> =>
  Array.fromAsync(producer.events(id, { signal: patience(), ...(after === undefined ? {} : { after }) }))

describe('live events', () => {
  it('arrive while the program runs', async () => {
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
    // The connection goes with the last reader.
    await vi.waitFor(async () => expect(await connections()).toBe(0), 20_000)
  })

  it('join output into entries of at most 16 KiB, cut at UTF-8 edges, in order', async () => {
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

  it('go on behind the id of the last one seen', async () => {
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

  it('say with a notice that earlier ones were trimmed', async () => {
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
    // Resuming behind the notice reads on at the first entry that is left.
    expect((await follow(producer, execution_id, events[0]!.id))[1]).toEqual(events[1])
    expect(await follow(producer, execution_id, events[1]!.id)).toEqual(events.slice(2))
  })

  it('of a flood take 8 MiB of Redis at most, however large its characters become, and end as the flood did', async () => {
    const producer = bench.producer()
    // JSON makes six bytes of each: 18 MiB.
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
    // Redis rounds each allocation up, by a quarter at most.
    expect(bytes).toBeLessThan(10 << 20)
    const events = await follow(producer, execution_id)
    expect(events[0]?.event).toMatchObject({
      type: 'notice',
      message: expect.stringContaining('Earlier events are gone'),
    })
    // Whatever fits is there.
    expect(textOf(events).length).toBeGreaterThan((7 << 20) / 6)
    expect(flood.endsWith(textOf(events))).toBe(true)
    expect(events.at(-1)?.event.type).toBe('ended')
  })

  it('of attempts that each print a flood take half as much more at most', async () => {
    const producer = bench.producer()
    // Seven and a half MiB as JSON: less than what makes an attempt forget its own.
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
    // Of the one before, how it ended.
    expect(said).toContain('\u00013')
    expect(said).not.toContain('\u00012')
  })

  it('of an owner that was fenced off do not appear', async () => {
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
    // What another worker's take does.
    await bench.redis.hincrby(`{cofferdam}:x:${execution_id}`, 'f', 1)
    proceed.open()
    await vi.waitFor(async () => expect((await producer.get(execution_id))?.status).toBe('ended'), 20_000)
    expect((await follow(producer, execution_id)).map(({ event }) => event.type)).toEqual([
      'queued',
      'output',
      'ended',
    ])
  })

  it('reach a reader that comes while the answer to an earlier wake is late', async () => {
    const redis = connectRedis(bench.url, 'producer')
    await expect.poll(() => redis.status, { timeout: 20_000 }).toBe('ready')
    // Redis carries each wake out at once, and says so when it is let.
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
    // A read that ends by nothing but an event or a wake.
    const tails = createEventTails(redis, 'late', 60_000)
    const happens = (id: string) => bench.redis.xadd(KEYS.events + id, '*', 'd', '{}')
    const never = new AbortController().signal
    try {
      const ids = [newExecutionId(), newExecutionId()] as const
      using _reading = tails.follow(newExecutionId(), '0-0')
      using woken = tails.follow(ids[0], '0-0')
      await happens(ids[0])
      // Its wake was read, and the next read is under way.
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

  it('end for a reader whose signal aborts', async () => {
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

  it('gives what an attempt has streamed to whoever ends it', async () => {
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
