/** A process that stands still while it connects: a long collection of garbage, a machine that gives it no time. */
import { isolatedRedis } from '@cofferdam/embedded/testing'
import { expect, it } from 'vitest'
import { connectRedis, createGuard } from '../src/connect.ts'

/** Longer than a producer waits for its connection (2 s), without a turn of the event loop. */
const standStill = (): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2500)

it('does not take a Redis that answers for one that is away', async () => {
  const server = await isolatedRedis(false)
  const redis = connectRedis(server.url, 'producer')
  try {
    const answer = createGuard(redis)(() => redis.ping())
    standStill()
    expect(await answer).toBe('PONG')
  } finally {
    redis.disconnect()
    await server.stop()
  }
})

it('gives up all the same when nobody answers', async () => {
  // Discard, where nobody listens.
  const redis = connectRedis('redis://127.0.0.1:9', 'producer')
  try {
    const answer = createGuard(redis)(() => redis.ping())
    standStill()
    await expect(answer).rejects.toMatchObject({ code: 'queue_unavailable' })
  } finally {
    redis.disconnect()
  }
})
