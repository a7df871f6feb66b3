/** Admission checks per second (100 in flight, 50 tenants × 7 agents), and the time of a single check. */
import { createAdmission } from '@cofferdam/admission'
import { newExecutionId } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { closedLoopRates, interleave, perSecond } from './rounds.ts'
import type { BenchContext, Measured } from './report.ts'
import { summarise } from './statistics.ts'

const TENANTS = 50
const AGENTS = 7
const SLICES = 5

export async function measureAdmission(context: BenchContext): Promise<Record<string, Measured>> {
  const redis = connectRedis(context.fleet.redisUrl, 'worker')
  const admission = createAdmission({
    redis,
    defaults: {
      tenant_daily: 1_000_000_000,
      agent_hourly: 1_000_000_000,
      concurrency: 1_000_000,
    },
    countCharged: (_tenant, atMs) =>
      Promise.resolve({ day: { bucket: Math.floor(atMs / 86_400_000), count: 0 }, hours: [] }),
  })
  let turn = 0
  const admit = async () => {
    turn++
    const admitted = await admission.admit({
      tenantId: `admission-${turn % TENANTS}`,
      agentId: `agent-${turn % AGENTS}`,
      executionId: newExecutionId(),
      attempt: 1,
    })
    if (!admitted.admitted) throw new Error(`refused: ${admitted.dimension}`)
    await admission.release(admitted.lease)
  }
  try {
    const alone = await interleave([{ name: 'admit', run: admit }], context.quick ? 200 : 2000)
    const rates = await closedLoopRates(admit, 100, context.quick ? 1000 : 10_000, SLICES)
    return {
      'admission.admit_and_release': { unit: 'ms', summary: summarise(alone.get('admit') ?? []) },
      'admission.checks': perSecond(rates),
    }
  } finally {
    redis.disconnect()
  }
}
