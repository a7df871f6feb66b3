import { isolatedRedis } from '@cofferdam/embedded/testing'
import { claimAuditLook, connectRedis, keepAuditFaults, readAuditFaults } from '@cofferdam/queue'
import { expect, it } from 'vitest'

it('lets one worker per round look for audit faults, and all workers read what it found', async () => {
  await using owned = new AsyncDisposableStack()
  const server = await isolatedRedis()
  owned.defer(() => server.stop())
  const redis = owned.adopt(connectRedis(server.url, 'worker'), (one) => one.disconnect())
  expect(await readAuditFaults(redis)).toBeNull()
  const claims = await Promise.all(['a', 'b', 'c'].map((worker) => claimAuditLook(redis, worker, 60_000)))
  expect(claims.filter((isMine) => isMine)).toHaveLength(1)
  await keepAuditFaults(redis, 3)
  expect(await readAuditFaults(redis)).toBe(3)
  await keepAuditFaults(redis, 0)
  expect(await readAuditFaults(redis)).toBe(0)
})
