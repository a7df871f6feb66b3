/** How much of its caps a tenant has used, for the dashboard and `GET /v1/tenants/{id}/usage`. */
import { CofferdamError, type CapsUse } from '@cofferdam/contract'
import { keys } from './keys.ts'
import { numberAt, textAt, type Scripts } from './scripts.ts'
import type { Unseeded } from './seed.ts'
import type { ServerRun } from './server-run.ts'
import { inThisRun } from './when-seeded.ts'

type CpuUse = NonNullable<CapsUse['tenant_daily_cpu']>

export interface Usage {
  tenant_daily: CapsUse['tenant_daily']
  /** Null when no agent was named. */
  agent_hourly: CapsUse['agent_hourly'] | null
  /** Leases that have not expired, and how many there may be. */
  concurrency: { running: number; limit: number }
  /** CPU seconds of the UTC day. Null for a tenant without this cap. `reserved`: for running attempts. */
  tenant_daily_cpu: (CpuUse & { reserved: number }) | null
  /** Micro-units of the UTC day. Null for a tenant without this cap. */
  tenant_daily_cost: (CpuUse & { reserved: number }) | null
  /**
   * False until the counters have been compared with the audit rows in this run of the Redis server. Until
   * then they may be too low.
   */
  seeded: boolean
}

/**
 * `recount` is set if a reservation has no lease, because its worker died before settling. Then pass
 * `recount` to the seeding and read again.
 */
export interface UsageReading {
  usage: Usage
  recount: Unseeded | null
}

/** Reads the usage in one call. Throws CofferdamError('queue_unavailable'). */
export async function readUsage(
  scripts: Scripts,
  tenantId: string,
  agentId: string | undefined,
  settings: {
    serverRun: ServerRun
    dayMs: number
    hourMs: number
    defaults: { tenant_daily: number; agent_hourly: number; concurrency: number }
  },
): Promise<UsageReading> {
  const named = [
    keys.seeded(tenantId),
    keys.caps(tenantId),
    keys.day(tenantId),
    keys.hour(tenantId, agentId ?? ''),
    keys.leases(tenantId),
    keys.open(tenantId),
  ]
  const { tenant_daily, agent_hourly, concurrency } = settings.defaults
  const asked = [agentId ?? '', settings.dayMs, settings.hourMs, tenant_daily, agent_hourly, concurrency]
  const answer = await inThisRun(settings.serverRun, (run) => scripts.run('usage', named, [...asked, run]))
  if (answer === null)
    throw new CofferdamError('queue_unavailable', 'Redis was replaced again and again while usage was read.')
  const { reply, run: serverRun } = answer
  const at = (index: number) => numberAt(reply, index)
  const use = (from: number) => ({
    used: at(from),
    limit: at(from + 1),
    resets_at: new Date(at(from + 2)).toISOString(),
  })
  const metered = (from: number, per: number) =>
    at(from + 2) < 0
      ? null
      : {
          used: at(from) / per,
          reserved: at(from + 1) / per,
          limit: at(from + 2) / per,
          resets_at: new Date(at(3)).toISOString(),
        }
  const usage: Usage = {
    tenant_daily: use(1),
    agent_hourly: agentId === undefined ? null : use(4),
    concurrency: { running: at(7), limit: at(8) },
    tenant_daily_cpu: metered(9, 1000),
    tenant_daily_cost: metered(12, 1),
    seeded: at(0) === 1,
  }
  const told = { serverRun, nowMs: at(16), capsRev: textAt(reply, 17) }
  return { usage, recount: at(15) === 1 ? told : null }
}
