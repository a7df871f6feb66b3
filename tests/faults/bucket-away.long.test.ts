/**
 * The bucket of full outputs fails. Executions must end as they do if the directory is full
 * (disk-full.test.ts).
 */
import { randomBytes } from 'node:crypto'
import type { Accepted } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import type { BucketFault } from '../../libs/store/test/blobs/test-bucket.ts'
import { expect, it } from 'vitest'
import { startBucketFleet, type BucketFleet } from '../bucket-fleet.ts'
import { endingsOf, expectExactBooks, expectNothingHeld, fakeRequest } from './accounts.ts'

async function enqueue({ fleet }: BucketFleet, count: number): Promise<Accepted[]> {
  const accepted: Accepted[] = []
  for (let n = 0; n < count; n += 1)
    accepted.push(await fleet.client.enqueue(fakeRequest('acme', [{ print: `${n}`.repeat(200_000) }])))
  return accepted
}

it.each<BucketFault>(['slow_down', 'fail', 'cut', 'denied', 'hang'])(
  'executions end once while every write to the bucket meets %s',
  async (fault) => {
    await using t = await startBucketFleet('acme', `k1:${randomBytes(32).toString('base64')}`)
    const { fleet, bucket } = t
    const worker = await fleet.startWorker({ COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '4' })
    const before = await enqueue(t, 1)
    const first = await endingsOf(fleet, before, 120_000)
    bucket.breaking = (operation) => (operation === 'PutObject' ? fault : null)
    const during = await enqueue(t, 5)
    const results = await endingsOf(fleet, during, 150_000)
    expect(results.map((result) => [result.ending, result.stdout.length])).toEqual(
      during.map(() => ['ok', 200_001]),
    )
    const redis = connectRedis(fleet.redisUrl, 'worker')
    expect(await redis.xlen(KEYS.outbox)).toBeGreaterThan(0)
    redis.disconnect()
    bucket.breaking = () => null
    const later = await enqueue(t, 2)
    const after = await endingsOf(fleet, later, 120_000)
    const all = [...before, ...during, ...later]
    await expectExactBooks(fleet, 'acme', all, [...first, ...results, ...after])
    // No row names a blob that is not there.
    for (const { execution_id } of all)
      expect((await fleet.store.findExecution('acme', execution_id))?.result.stdout).toHaveLength(200_001)
    await expectNothingHeld(fleet)
    expect(worker.process.exitCode).toBe(null)
    await fleet.stopWorkers()
  },
  600_000,
)
