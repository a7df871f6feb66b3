import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newWorkerId } from '@cofferdam/contract'
import { startRedis } from '@cofferdam/embedded'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { connectRedis, createConsumer, createProducer } from '../src/index.ts'
import { endWith, gate, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'

const dataDir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
let server = await startRedis({ dataDir, durable: true })
afterAll(async () => {
  await server.stop()
  rmSync(dataDir, { recursive: true, force: true })
})

describe('a restart of Redis', () => {
  it('makes puts fail fast, and runs, waiters and readers continue afterwards', async () => {
    const { url } = server
    const connections = (['producer', 'worker', 'subscriber'] as const).map((role) => connectRedis(url, role))
    const [producing, working, subscriber] = connections
    const producer = createProducer({ redis: producing!, subscriber: subscriber! })
    const begun = gate()
    const proceed = gate()
    const settled = vi.fn()
    const consumer = createConsumer({
      redis: working!,
      subscriber: subscriber!,
      workerId: newWorkerId('0123456789ab'),
      slots: 1,
      lanes: ['interactive'],
      async process(taken) {
        await taken.begin(sandboxRef(), SANDBOX_INFO)
        begun.open()
        await proceed.opened
        await endWith('ok')(taken)
        settled(taken.signal.aborted, taken.fence)
      },
      onOutbox: async () => undefined,
      // Longer than a restart of Redis takes on a busy machine: the run must keep its fence.
      lockMs: 15_000,
      sweepMs: 100,
    })
    consumer.start()
    const running = await producer.put(requestOf(), { awaitReply: true })
    await begun.opened
    const queued = await producer.put(requestOf({ idempotency_key: 'k' }), { awaitReply: true })
    const waiting = [running, queued].map(({ execution_id }) =>
      producer.wait(execution_id, { timeoutMs: 50_000 }),
    )
    const events = producer.events(queued.execution_id, { signal: AbortSignal.timeout(50_000) })
    // A new reader would get an error while Redis is away. This one already blocks on the stream.
    const reader = events[Symbol.asyncIterator]()
    const seen = [(await reader.next()).value]
    const reading = Array.fromAsync({ [Symbol.asyncIterator]: () => reader })
    await vi.waitFor(
      async () => expect(await producing!.client('LIST')).toMatch(/name=cofferdam-events .*cmd=xread/),
      20_000,
    )

    await server.stop()
    await expect(producer.put(requestOf())).rejects.toMatchObject({ code: 'queue_unavailable' })
    proceed.open()
    server = await startRedis({ dataDir, durable: true })
    expect(server.url).toBe(url)

    expect(await waiting[0]).toMatchObject({ ok: true, attempt: 1 })
    expect(await waiting[1]).toMatchObject({ ok: true, attempt: 1 })
    seen.push(...(await reading))
    expect(seen.map((one) => one?.event.type)).toEqual(['queued', 'started', 'ended'])
    // A waiter may hear of an ending before the worker has Redis's answer.
    await vi.waitFor(
      () =>
        expect(settled.mock.calls).toEqual([
          [false, 1],
          // Redis restarted before this take, so it skips all fences that may have been issued and lost.
          [false, 1000],
        ]),
      20_000,
    )
    const again = await producer.put(requestOf({ idempotency_key: 'k' }))
    expect(again).toMatchObject({ execution_id: queued.execution_id, deduplicated: true })
    await consumer.drain({ graceMs: 1000 })
    await producer[Symbol.asyncDispose]()
    for (const connection of connections) connection.disconnect()
  })

  it('is reported to a worker whose take was sent again by its connection', async () => {
    const connections = (['producer', 'worker', 'subscriber'] as const).map((role) =>
      connectRedis(server.url, role),
    )
    const [producing, working, subscriber] = connections
    // The kill may lose no write. `everysec` puts a write off for two seconds while an earlier one is synced.
    await working!.config('SET', 'appendfsync', 'always')
    const producer = createProducer({ redis: producing!, subscriber: subscriber! })
    const taken: [boolean, number][] = []
    const proceed = gate()
    const consumer = createConsumer({
      redis: working!,
      subscriber: subscriber!,
      workerId: newWorkerId('0123456789ab'),
      slots: 1,
      lanes: ['interactive'],
      async process(one) {
        taken.push([one.mayHaveRun, one.fence])
        if (taken.length > 1) return await endWith('ok')(one)
        // Do not settle, so that the worker's next call is the take of another execution.
        await proceed.opened
      },
      onOutbox: async () => undefined,
      lockMs: 60_000,
      sweepMs: 60_000,
    })
    consumer.start()
    await producer.put(requestOf())
    await vi.waitFor(() => expect(taken).toHaveLength(1), 20_000)
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    const result = producer.wait(execution_id, { timeoutMs: 50_000 })
    const unanswered = (): number => (working as unknown as { commandQueue: unknown[] }).commandQueue.length
    await vi.waitFor(() => expect(unanswered()).toBe(0), 20_000)
    process.kill(server.pid, 'SIGSTOP')
    proceed.open()
    await vi.waitFor(() => expect(unanswered()).toBe(1), 20_000)
    process.kill(server.pid, 'SIGKILL')
    await server.stop()
    server = await startRedis({ dataDir, durable: true })

    expect(await result).toMatchObject({ ok: true })
    expect(taken).toEqual([
      [false, 1],
      [true, 1000],
    ])
    await consumer.drain({ graceMs: 1000 })
    await producer[Symbol.asyncDispose]()
    for (const connection of connections) connection.disconnect()
  })
})
