/** A rate that several workers share, on a real server. */
import { testRedis, type TestServer } from '@cofferdam/embedded/testing'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createRateGate } from '../src/index.ts'
import { connect } from './open-admission.ts'

let server: TestServer
let connections: Redis[]
beforeAll(async () => {
  server = await testRedis()
  connections = [connect(server.url), connect(server.url)]
})
afterAll(async () => {
  for (const redis of connections) redis.disconnect()
  await server.stop()
})

const never = new AbortController().signal
/** Waits long for an answer, because a late answer would let the call pass. */
const gateOf = (redis: Redis) => createRateGate({ redis, timeoutMs: 20_000 })

it('admits at most 1.2 times the rate per second, over all callers', async () => {
  const gates = connections.map(gateOf)
  const startedAt = performance.now()
  const turns = await Promise.all(
    Array.from({ length: 40 }, async (_, n) => {
      await gates[n % 2]?.take('shared', 50, { waitMs: 10_000, signal: never })
      return performance.now() - startedAt
    }),
  )
  // 10 calls pass at once, and the other 30 at 50 a second.
  expect(turns.filter((at) => at < 20).length).toBeLessThanOrEqual(12)
  expect(Math.max(...turns)).toBeGreaterThan(570)
})

it('refuses a turn that comes later than the caller waits, and takes no token for it', async () => {
  const [gate] = connections.map(gateOf)
  // A turn every 3 s. The refusals below take less on any machine.
  const take = async (waitMs: number): Promise<void> =>
    await gate?.take('full', 1 / 3, { waitMs, signal: never })
  await take(0)
  for (let n = 0; n < 5; n += 1) await expect(take(10)).rejects.toMatchObject({ code: 'backend_unavailable' })
  await take(3300)
})

it("stops waiting with the reason of the caller's signal", async () => {
  const [gate] = connections.map(gateOf)
  const stop = new AbortController()
  const reason = new Error('enough')
  await gate?.take('slow', 1, { waitMs: 0, signal: never })
  const waiting = gate?.take('slow', 1, { waitMs: 5000, signal: stop.signal })
  stop.abort(reason)
  await expect(waiting).rejects.toBe(reason)
})

it('lets everything pass while Redis is away', async () => {
  const away = connect('redis://127.0.0.1:1')
  const gate = createRateGate({ redis: away, timeoutMs: 20 })
  await gate.take('any', 1, { waitMs: 0, signal: never })
  away.disconnect()
})
