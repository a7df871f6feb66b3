import { isolatedRedis } from '@cofferdam/embedded/testing'
import { connectRedis, createConsumer } from '@cofferdam/queue'
import { composeAttempt, newWorkerId, outcomeWithoutRun } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createQueueClient } from '../src/queue.ts'

const input = {
  tenant_id: 'acme',
  agent_id: 'agent-1',
  program: { type: 'script', language: 'python', source: 'print(1)' },
} as const

let server: Awaited<ReturnType<typeof isolatedRedis>>
beforeAll(async () => {
  server = await isolatedRedis()
})
afterAll(() => server.stop())

function startWorker(): AsyncDisposable {
  const redis = connectRedis(server.url, 'worker')
  const subscriber = connectRedis(server.url, 'subscriber')
  const consumer = createConsumer({
    redis,
    subscriber,
    workerId: newWorkerId('0123456789ab'),
    slots: 2,
    lanes: ['interactive', 'routine'],
    async process(taken) {
      taken.emit({ type: 'output', at_ms: 1, stream: 'stdout', text: 'hi' })
      const record = composeAttempt({
        executionId: taken.executionId,
        attempt: taken.attempt,
        request: taken.request,
        outcome: outcomeWithoutRun('ok', 'test', ''),
        enqueuedAtMs: taken.enqueuedAtMs,
        startedAtMs: taken.takenAtMs,
        finishedAtMs: taken.takenAtMs,
        traceId: null,
        retentionDays: 30,
        caps: null,
        chargedAtMs: null,
      })
      await taken.settle(record, { slotMs: 1 })
    },
    onOutbox: async () => undefined,
    sweepMs: 100,
  })
  consumer.start()
  return {
    async [Symbol.asyncDispose]() {
      await consumer[Symbol.asyncDispose]()
      redis.disconnect()
      subscriber.disconnect()
    },
  }
}

describe('the client over Redis', () => {
  it('runs, waits, streams and reads the state like the client over HTTP', async () => {
    await using _worker = startWorker()
    await using client = createQueueClient({ redisUrl: server.url })
    const result = await client.run(input, { timeoutMs: 30_000 })
    expect(result).toMatchObject({ ok: true, attempt: 1 })
    const id = result.execution_id
    expect(await client.wait(id)).toEqual(result)
    expect(await client.get(id)).toMatchObject({ status: 'ended', result })
    expect((await Array.fromAsync(client.stream(id))).map(({ event }) => event.type)).toEqual([
      'queued',
      'output',
      'ended',
    ])
    expect(await client.cancel(id)).toBe('ended')
  })

  it('run rejects with wait_timeout and the ID while there is no worker, and cancel ends it', async () => {
    await using client = createQueueClient({ redisUrl: server.url })
    const failure = await client.run(input, { timeoutMs: 50 }).catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: 'wait_timeout' })
    const { execution_id } = (failure as { details: { execution_id: `exe_${string}` } }).details
    expect(await client.cancel(execution_id, 'enough')).toBe('cancelled')
    expect(await client.wait(execution_id)).toMatchObject({ ending: 'cancelled', error_message: 'enough' })
  })

  it('with awaitReply, the result waits in the client and needs no call of Redis', async () => {
    const worker = startWorker()
    await using client = createQueueClient({ redisUrl: server.url })
    const { execution_id } = await client.enqueue(input, { awaitReply: true })
    await expect.poll(async () => (await client.get(execution_id))?.status, { timeout: 30_000 }).toBe('ended')
    await worker[Symbol.asyncDispose]()
    const redis = connectRedis(server.url, 'worker')
    const scriptCalls = async (): Promise<string | undefined> => {
      const [calls] = /cmdstat_evalsha:calls=\d+/.exec(await redis.info('commandstats')) ?? []
      return calls
    }
    const before = await scriptCalls()
    expect(await client.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
    expect(await scriptCalls()).toBe(before)
    redis.disconnect()
  })

  it('refuses an invalid request before it reaches Redis', async () => {
    await using client = createQueueClient({ redisUrl: server.url })
    await expect(client.enqueue({ ...input, tenant_id: '' })).rejects.toMatchObject({
      code: 'invalid_request',
    })
  })
})
