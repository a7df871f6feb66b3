/** A process stands still while it connects, as in a long garbage collection or on a busy machine. */
import { isolatedRedis } from '@cofferdam/embedded/testing'
import { expect, it } from 'vitest'
import { connectRedis, createGuard } from '../src/connect.ts'

/** Blocks the event loop for 2.5 s, longer than a producer waits for its connection (2 s). */
const standStill = (): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2500)

it('does not report Redis as away when Redis answers and this process stood still', async () => {
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

it('still gives up when nothing answers', async () => {
  // Port 9, where nothing listens.
  const redis = connectRedis('redis://127.0.0.1:9', 'producer')
  try {
    const answer = createGuard(redis)(() => redis.ping())
    standStill()
    await expect(answer).rejects.toMatchObject({ code: 'queue_unavailable' })
  } finally {
    redis.disconnect()
  }
})
