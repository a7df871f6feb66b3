/**
 * A worker for session.test.ts. Until it is killed, it notes what it ran in which order, and whether two
 * executions of one session ran at once.
 */
import type { WorkerId } from '@cofferdam/contract'
import { connectRedis, createConsumer } from '../src/index.ts'
import { recordOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'

const [url = '', workerId = '', lockMs = ''] = process.argv.slice(2)
const redis = connectRedis(url, 'worker')
const consumer = createConsumer({
  redis,
  subscriber: connectRedis(url, 'subscriber'),
  workerId: workerId as WorkerId,
  slots: 4,
  lanes: ['interactive', 'routine'],
  async process(taken) {
    const session = `${taken.request.tenant_id}:${taken.request.session?.key ?? ''}`
    if (taken.interrupted !== null)
      return taken.settle(recordOf(taken, 'worker_lost'), { slotMs: 1, outbox: true })
    await taken.begin(sandboxRef(), SANDBOX_INFO)
    if ((await redis.hincrby('test:inside', session, 1)) > 1) await redis.incr('test:overlaps')
    await redis.rpush(`test:ran:${session}`, `${workerId} ${taken.executionId}`)
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 10))
    await redis.hincrby('test:inside', session, -1)
    await redis.hincrby('test:endings', taken.executionId, 1)
    await taken.settle(recordOf(taken, 'ok'), { slotMs: 5 })
  },
  onOutbox: async () => undefined,
  lockMs: Number(lockMs),
  sweepMs: 100,
})
consumer.start()
process.send?.('ready')
process.on('SIGTERM', () => {
  void consumer.drain({ graceMs: 200 }).then(() => process.exit(0))
})
