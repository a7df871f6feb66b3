/** A worker for chaos.long.test.ts. Ends, retries or gives back executions at random until it is killed. */
import type { WorkerId } from '@cofferdam/contract'
import { connectRedis, createConsumer } from '../src/index.ts'
import { recordOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'

const [url = '', workerId = ''] = process.argv.slice(2)
const redis = connectRedis(url, 'worker')
const chance = (share: number): boolean => Math.random() < share
const consumer = createConsumer({
  redis,
  subscriber: connectRedis(url, 'subscriber'),
  workerId: workerId as WorkerId,
  slots: 4,
  lanes: ['interactive', 'routine'],
  async process(taken) {
    if (taken.interrupted !== null)
      return taken.settle(recordOf(taken, 'worker_lost'), { slotMs: 1, outbox: true })
    if (chance(0.05)) return taken.giveBack()
    if (chance(0.03)) return taken.defer(Date.now() + 50, 'cap')
    await taken.begin(sandboxRef(), SANDBOX_INFO)
    // Stands for the user's program: counts how often each attempt begins.
    await redis.hincrby('test:begun', `${taken.executionId} ${taken.attempt}`, 1)
    taken.emit({ type: 'output', at_ms: 1, stream: 'stdout', text: 'x' })
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 20))
    if (taken.attempt === 1 && chance(0.05))
      return taken.retry(recordOf(taken, 'sandbox_lost'), { slotMs: 5, outbox: true })
    await taken.settle(recordOf(taken, 'ok'), { slotMs: 5, outbox: true })
  },
  async onOutbox(records) {
    for (const { audit } of records)
      await redis.hincrby('test:rows', `${audit.execution_id} ${audit.attempt}`, 1)
  },
  lockMs: 1500,
  sweepMs: 100,
})
consumer.start()
process.on('SIGTERM', () => {
  void consumer.drain({ graceMs: 50 }).then(() => process.exit(0))
})
