/** What a tenant has used of its caps, as the dashboard and `GET /v1/tenants/{id}/usage` show it. */
import type { CapsUse } from '@cofferdam/contract'
import { keys } from './keys.ts'
import { numberAt, textAt, type Scripts } from './scripts.ts'
import type { Unseeded } from './seed.ts'

type CpuUse = NonNullable<CapsUse['tenant_daily_cpu']>

export interface Usage {
  tenant_daily: CapsUse['tenant_daily']
  /** Null when no agent was named. */
  agent_hourly: CapsUse['agent_hourly'] | null
  /** Leases that have not run out, and how many there may be. */
  concurrency: { running: number; limit: number }
  /** Of the UTC day; null for a tenant without this cap. Seconds; `reserved` is for attempts that run now. */
  tenant_daily_cpu: (CpuUse & { reserved: number }) | null
  /** Of the UTC day, micro-units; null for a tenant without this cap. */
  tenant_daily_cost: (CpuUse & { reserved: number }) | null
  /** False while the counters have not been compared with the audit rows since the server started: they may be low. */
  seeded: boolean
}

/** A reading, and what to count again first where something is reserved that nobody holds: its worker died before it was settled. */
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
    serverRun: string
    dayMs: number
    hourMs: number
    defaults: { tenant_daily: number; agent_hourly: number; concurrency: number }
  },
): Promise<UsageReading> {
  const { defaults } = settings
  const reply = await scripts.run(
    'usage',
    [
      keys.seeded(tenantId),
      keys.caps(tenantId),
      keys.day(tenantId),
      keys.hour(tenantId, agentId ?? ''),
      keys.leases(tenantId),
      keys.open(tenantId),
    ],
    [
      agentId ?? '',
      settings.dayMs,
      settings.hourMs,
      defaults.tenant_daily,
      defaults.agent_hourly,
      defaults.concurrency,
      settings.serverRun,
    ],
  )
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
  const told = { serverRun: settings.serverRun, nowMs: at(16), capsRev: textAt(reply, 17) }
  return { usage, recount: at(15) === 1 ? told : null }
}
