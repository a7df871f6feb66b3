/**
 * A master of a Redis Cluster fails over to its replica, and the client learns of it. when-seeded.test.ts
 * covers a client that does not learn of it.
 */
import { createAdmission } from '@cofferdam/admission'
import { newExecutionId } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { needs } from '@cofferdam/embedded/needs'
import { expect } from 'vitest'
import { startRedisCluster } from './servers/redis-cluster.ts'
import { until } from './servers/redis-process.ts'

const withServers = needs('redis-server', 'setpriv')

const DAY_MS = 86_400_000

withServers.it('after a failover a tenant is admitted, and counted by its audit rows', async () => {
  await using cluster = await startRedisCluster()
  const master = await cluster.nodeOf('cfd:{acme}:day')
  const replica = await cluster.replicate(master)
  const redis = connectRedis(cluster.url, 'worker')
  const attempt = () => ({
    tenantId: 'acme',
    agentId: 'agent-1',
    executionId: newExecutionId(),
    attempt: 1,
  })
  let recorded = 0
  const admission = createAdmission({
    redis,
    timeoutMs: 30_000,
    countCharged: async (_tenantId, atMs) => ({
      day: { bucket: Math.floor(atMs / DAY_MS), count: recorded },
      hours: [],
    }),
  })
  const admitted = () =>
    expect.poll(async () => (await admission.admit(attempt())).admitted, { timeout: 60_000 }).toBe(true)
  try {
    // Waits until the client knows the cluster's nodes.
    await admitted()
    recorded = 5
    await replica.command('CLUSTER', 'FAILOVER')
    await until(
      'failover',
      async () => String(await replica.command('INFO', 'replication')).includes('role:master'),
      30_000,
    )
    // An admission may fail while the slots move.
    await admitted()
    const { tenant_daily, seeded } = await admission.usage('acme')
    expect({ used: tenant_daily.used, seeded }).toEqual({ used: 5 + 1 + 1, seeded: true })
  } finally {
    redis.disconnect()
  }
})
