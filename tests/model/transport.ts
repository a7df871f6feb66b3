/** A private Redis, and BullMQ workers that never run by themselves, for the worlds of the model. */
import { isolatedRedis } from '@cofferdam/embedded/testing'
import { connectRedis, LANES, type Lane } from '@cofferdam/queue'
import { TAG } from '@cofferdam/queue/testing'
import { Worker } from 'bullmq'
import { admissionOf, type Transport } from './world.ts'

/** Starts the Redis and the workers. `await using` ends them. */
export async function openTransport(): Promise<Transport & AsyncDisposable> {
  const server = await isolatedRedis()
  const redis = connectRedis(server.url, 'worker')
  const each = <T>(make: (lane: Lane) => T) =>
    Object.fromEntries(LANES.map((lane) => [lane, make(lane)])) as Record<Lane, T>
  const transport: Transport & AsyncDisposable = {
    redis,
    admission: admissionOf(redis, (tenant) => transport.charged(tenant)),
    charged: () => 0,
    workers: each(
      (lane) =>
        new Worker(lane, null, {
          connection: redis,
          prefix: TAG,
          autorun: false,
          skipVersionCheck: true,
          lockDuration: 3_600_000,
          maxStalledCount: 1_000_000,
          removeOnComplete: { count: 0 },
          removeOnFail: { count: 0 },
        }),
    ),
    async [Symbol.asyncDispose]() {
      for (const lane of LANES) await transport.workers[lane].close(true)
      redis.disconnect()
      await server.stop()
    },
  }
  return transport
}
