/** Helpers for the queue's tests: a private Redis per file, producers and consumers. */
import { newWorkerId } from '@cofferdam/contract'
import { isolatedRedis } from '@cofferdam/embedded/testing'
import type { Redis } from 'ioredis'
import {
  connectRedis,
  createConsumer,
  createProducer,
  type Consumer,
  type ConsumerDeps,
  type Producer,
} from '../src/index.ts'
import { endWith } from './fixtures.ts'

export interface Bench extends AsyncDisposable {
  url: string
  /** A connection for the test's own reads. */
  redis: Redis
  producer(): Producer
  /**
   * A consumer that sweeps every 100 ms and by default ends everything with `ok`. It uses the product's lock
   * time, because a machine that stands still for a second would lose a shorter lock.
   */
  consumer(deps?: Partial<ConsumerDeps>): Consumer
  /** Closes everything that the test opened, and empties Redis. */
  clear(): Promise<void>
}

/** Starts a private Redis. `clear` closes the producers and consumers that the test gets from it. */
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
