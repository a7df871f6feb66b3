/** A worker for redelivery.test.ts. Takes one execution, reports it, and hangs until it is killed. */
import type { WorkerId } from '@cofferdam/contract'
import { connectRedis, createConsumer } from '../src/index.ts'
import { SANDBOX_INFO, sandboxRef } from './fixtures.ts'

const [url = '', workerId = '', how = ''] = process.argv.slice(2)
const consumer = createConsumer({
  redis: connectRedis(url, 'worker'),
  subscriber: connectRedis(url, 'subscriber'),
  workerId: workerId as WorkerId,
  slots: 1,
  lanes: ['interactive'],
  async process(taken) {
    const ref = sandboxRef()
    if (how !== 'taken') await taken.begin(ref, { ...SANDBOX_INFO, chargedAtMs: 7 })
    if (how === 'handed over') await taken.handOver()
    process.send?.({ id: taken.executionId, ref })
    await new Promise(() => undefined)
  },
  onOutbox: async () => undefined,
  lockMs: 1500,
  sweepMs: 100,
})
consumer.start()
