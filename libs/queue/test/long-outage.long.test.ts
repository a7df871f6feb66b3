/** A worker whose Redis is away for longer than one of its blocking reads. */
import { setTimeout as pause } from 'node:timers/promises'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startRedis } from '@cofferdam/embedded'
import { expect, it } from 'vitest'
import { connectRedis, createConsumer, createProducer } from '../src/index.ts'
import { endWith, requestOf } from './fixtures.ts'

/** A blocking read takes 5 s, and one that is a second late counts as stuck. */
const AWAY_MS = 8000

it('takes again when Redis is back, with and without its data', async () => {
  await using owned = new AsyncDisposableStack()
  const dataDir = mkdtempSync(join(tmpdir(), 'cofferdam-outage-'))
  owned.defer(() => rmSync(dataDir, { recursive: true, force: true }))
  let durable = true
  let server = await startRedis({ dataDir, durable })
  owned.defer(() => server.stop())
  const connect = (role: 'producer' | 'worker' | 'subscriber') =>
    owned.adopt(connectRedis(server.url, role), (redis) => redis.disconnect())
  const producer = owned.use(
    createProducer({ redis: connect('producer'), subscriber: connect('subscriber') }),
  )
  const consumer = owned.use(
    createConsumer({
      redis: connect('worker'),
      subscriber: connect('subscriber'),
      workerId: 'wrk_0123456789ab_outage',
      slots: 2,
      lanes: ['interactive', 'routine'],
      process: endWith('ok'),
      onOutbox: async () => undefined,
    }),
  )
  consumer.start()
  const runs = async (): Promise<void> => {
    const { execution_id } = await producer.put(requestOf())
    expect(await producer.wait(execution_id, { timeoutMs: 60_000 })).toMatchObject({ ok: true })
  }
  await runs()
  for (durable of [true, false]) {
    await server.stop()
    // A fixed pause, because the length of the outage matters. Meanwhile there is no server that the test
    // could ask.
    await pause(AWAY_MS)
    server = await startRedis({ dataDir, durable })
    await runs()
  }
})
