/** What the queue's tests share: an own Redis per file, producers, consumers and records. */
import {
  composeAttempt,
  executionRequestSchema,
  newSandboxId,
  newWorkerId,
  outcomeWithoutRun,
  type AttemptRecord,
  type Ending,
  type ExecutionRequest,
  type ExecutionRequestInput,
  type SandboxRef,
} from '@cofferdam/contract'
import { isolatedRedis } from '@cofferdam/embedded/testing'
import type { Redis } from 'ioredis'
import {
  connectRedis,
  createConsumer,
  createProducer,
  type Consumer,
  type ConsumerDeps,
  type Producer,
  type Taken,
} from '../src/index.ts'

export interface Bench extends AsyncDisposable {
  url: string
  /** A connection for looking around. */
  redis: Redis
  producer(): Producer
  /** A consumer with short periods (lock 1.5 s, sweep 100 ms) that ends everything with `ok` unless told otherwise. */
  consumer(deps?: Partial<ConsumerDeps>): Consumer
  /** Closes what the test opened and empties Redis. */
  clear(): Promise<void>
}

/** Starts an own Redis and hands out producers and consumers that are closed by `clear`. */
export async function startBench(): Promise<Bench> {
  const server = await isolatedRedis(true)
  const redis = connectRedis(server.url, 'worker')
  let open: AsyncDisposable[] = []
  let connections: Redis[] = []

  const connect = (role: 'producer' | 'worker' | 'subscriber'): Redis => {
    const connection = connectRedis(server.url, role)
    connections.push(connection)
    return connection
  }

  const clear = async (): Promise<void> => {
    await Promise.all(open.map((one) => one[Symbol.asyncDispose]()))
    for (const connection of connections) connection.disconnect()
    open = []
    connections = []
    await redis.flushall()
  }

  return {
    url: server.url,
    redis,
    producer() {
      const producer = createProducer({ redis: connect('producer'), subscriber: connect('subscriber') })
      open.push(producer)
      return producer
    },
    consumer(deps = {}) {
      const consumer = createConsumer({
        redis: connect('worker'),
        subscriber: connect('subscriber'),
        workerId: newWorkerId('0123456789ab'),
        slots: 4,
        lanes: ['interactive', 'routine'],
        process: endWith('ok'),
        onOutbox: async () => undefined,
        onLost: async () => undefined,
        lockMs: 1500,
        sweepMs: 100,
        ...deps,
      })
      open.push(consumer)
      consumer.start()
      return consumer
    },
    clear,
    async [Symbol.asyncDispose]() {
      await clear()
      redis.disconnect()
      await server.stop()
    },
  }
}

/** A process function that ends every execution with the same ending. */
export const endWith =
  (ending: Ending, slotMs = 1) =>
  async (taken: Taken): Promise<void> => {
    await taken.settle(recordOf(taken, ending), { slotMs })
  }

/** A valid request; `tenant` and `agent` name the two dimensions of fairness. */
export function requestOf(input: Partial<ExecutionRequestInput> = {}): ExecutionRequest {
  return executionRequestSchema.parse({
    tenant_id: 'acme',
    agent_id: 'agent-1',
    program: { type: 'script', language: 'python', source: 'print(1)' },
    ...input,
  })
}

/** The record of an attempt without user code, with the given ending and stdout. */
export function recordOf(taken: Taken, ending: Ending = 'ok', stdout = ''): AttemptRecord {
  const outcome = outcomeWithoutRun(ending, 'test', 'test')
  const text = { text: stdout, bytes: Buffer.byteLength(stdout), truncated: false, ref: null }
  return composeAttempt({
    executionId: taken.executionId,
    attempt: taken.attempt,
    request: taken.request,
    outcome: { ...outcome, stdout: text, reason: null, failureReason: null },
    enqueuedAtMs: taken.enqueuedAtMs,
    startedAtMs: taken.takenAtMs,
    finishedAtMs: taken.takenAtMs + 1,
    traceId: null,
    retentionDays: 30,
    caps: null,
    chargedAtMs: null,
  })
}

export const sandboxRef = (): SandboxRef => ({ backend: 'fake', id: newSandboxId(), handle: { pid: 1 } })
export const SANDBOX_INFO = { backend: 'fake', isolation: 'none' } as const

/** A promise that the test opens by hand. */
export function gate(): { opened: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { opened: promise, open: () => resolve() }
}
