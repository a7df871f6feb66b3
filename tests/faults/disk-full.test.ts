/** The directory for full outputs has no space left. Executions still end once, with one row each. */
import { execFile } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Accepted } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import { needs } from '@cofferdam/embedded/needs'
import { expect } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { endingsOf, expectExactBooks, expectNothingHeld, fakeRequest } from './accounts.ts'

const run = promisify(execFile)

async function enqueue(fleet: Fleet, count: number): Promise<Accepted[]> {
  const accepted: Accepted[] = []
  for (let n = 0; n < count; n += 1)
    accepted.push(await fleet.client.enqueue(fakeRequest('disk', [{ print: `${n}`.repeat(200_000) }])))
  return accepted
}

needs('mounts').it(
  'executions whose full output cannot be stored end once',
  async () => {
    await using fleet = await startFleet()
    const blobs = path.join(fleet.dataDir, 'blobs')
    await mkdir(blobs, { recursive: true })
    await run('mount', ['-t', 'tmpfs', '-o', 'size=1m,mode=0700', 'cofferdam-test', blobs])
    try {
      await fleet.createTenant('disk', {
        policy: { min_isolation: 'none' },
        caps: { tenant_daily: 1000, agent_hourly: 1000 },
      })
      await fleet.startWorker({ COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '4' })
      const during = await enqueue(fleet, 9)
      const results = await endingsOf(fleet, during, 60_000)
      // The caller has the result. The full output waits in Redis with its audit row.
      expect(results.map((result) => [result.ending, result.stdout.length])).toEqual(
        during.map(() => ['ok', 200_001]),
      )
      const redis = connectRedis(fleet.redisUrl, 'worker')
      expect(await redis.xlen(KEYS.outbox)).toBeGreaterThan(0)
      redis.disconnect()
      await run('mount', ['-o', 'remount,size=64m', blobs])
      const later = await enqueue(fleet, 2)
      const after = await endingsOf(fleet, later, 30_000)
      expect(after.map((result) => result.ending)).toEqual(['ok', 'ok'])
      await expectExactBooks(fleet, 'disk', [...during, ...later], [...results, ...after])
      await expectNothingHeld(fleet)
      await fleet.stopWorkers()
    } finally {
      await run('umount', ['-l', blobs])
    }
  },
  120_000,
)
