/**
 * The remaining caps as the response headers `RateLimit-Policy` and `RateLimit`
 * (draft-ietf-httpapi-ratelimit-headers-11, structured fields of RFC 9651). Parameters: q (quota), qu (its
 * unit unless requests), w (window in seconds), r (remaining), t (seconds until reset). The headers are
 * hints: executions that wait are not counted yet.
 */
import type { Admission } from '@cofferdam/admission'
import type { CapsUse } from '@cofferdam/contract'

const HOUR_S = 3600
const DAY_S = 86_400
/** The largest integer of a structured field (RFC 9651 §3.3.1). */
const MOST = 999_999_999_999_999

/** Caps as admission reports them. `reserved` is for attempts that run now. */
export type Budget = Omit<CapsUse, 'agent_hourly' | 'tenant_daily_cpu' | 'tenant_daily_cost'> & {
  agent_hourly?: CapsUse['agent_hourly'] | null | undefined
  tenant_daily_cpu?: (NonNullable<CapsUse['tenant_daily_cpu']> & { reserved?: number }) | null | undefined
  tenant_daily_cost?: (NonNullable<CapsUse['tenant_daily_cost']> & { reserved?: number }) | null | undefined
}

/** The headers. Empty when the budget is unknown or its windows are over. */
export function rateLimitHeaders(budget: Budget | null, nowMs: number): Record<string, string> {
  if (budget === null) return {}
  const policies = [
    { name: 'tenant-daily', use: budget.tenant_daily, seconds: DAY_S, unit: null },
    { name: 'agent-hourly', use: budget.agent_hourly, seconds: HOUR_S, unit: null },
    { name: 'tenant-daily-cpu', use: budget.tenant_daily_cpu, seconds: DAY_S, unit: 'cpu-seconds' },
    { name: 'tenant-daily-cost', use: budget.tenant_daily_cost, seconds: DAY_S, unit: 'micro-units' },
  ].flatMap(({ use, ...policy }) => {
    const inSeconds = use == null ? 0 : Math.ceil((Date.parse(use.resets_at) - nowMs) / 1000)
    return use == null || inSeconds <= 0 ? [] : [{ ...policy, use, inSeconds }]
  })
  if (policies.length === 0) return {}
  return {
    'ratelimit-policy': policies
      .map(
        ({ name, use, seconds, unit }) =>
          `"${name}";q=${integer(use.limit)}${unit === null ? '' : `;qu="${unit}"`};w=${seconds}`,
      )
      .join(', '),
    ratelimit: policies
      .map(({ name, use, inSeconds }) => `"${name}";r=${integer(remaining(use))};t=${inSeconds}`)
      .join(', '),
  }
}

const remaining = (use: { used: number; limit: number; reserved?: number }): number =>
  use.limit - use.used - (use.reserved ?? 0)

const integer = (value: number): number => Math.min(MOST, Math.max(0, Math.floor(value)))

/** The headers are hints, so a budget may be one second old. A busy agent then costs one read a second. */
const FRESH_MS = 1000
/** Cached pairs of tenant and agent: about 2 MB. The oldest is evicted first. */
const MAX_PAIRS = 10_000

export interface Budgets {
  /** Reads at most once a second per pair. Resolves with null when Redis is away. Never rejects. */
  read(tenantId: string, agentId: string): Promise<Budget | null>
}

export function createBudgets(deps: { admission: Pick<Admission, 'usage'>; now(): number }): Budgets {
  const known = new Map<string, { atMs: number; budget: Promise<Budget | null> }>()
  return {
    read(tenantId, agentId) {
      // Neither name contains a slash (contract, nameSchema).
      const pair = `${tenantId}/${agentId}`
      const now = deps.now()
      const present = known.get(pair)
      if (present !== undefined && now - present.atMs < FRESH_MS) return present.budget
      const budget = deps.admission.usage(tenantId, agentId).catch(() => null)
      known.delete(pair)
      known.set(pair, { atMs: now, budget })
      const [oldest] = known.keys()
      if (known.size > MAX_PAIRS && oldest !== undefined) known.delete(oldest)
      return budget
    },
  }
}
