/**
 * What is left of the caps, as response headers: `RateLimit-Policy` and `RateLimit` of
 * draft-ietf-httpapi-ratelimit-headers-11 (structured fields, RFC 9651): lists of items that are named by their policy, with
 * q (quota), qu (its unit, when it is not requests) and w (window in seconds), and with r (remaining) and t (seconds until
 * it resets). Hints, no promise: executions that wait are not counted yet.
 */
import type { CapsUse } from '@cofferdam/contract'

const HOUR_S = 3600
const DAY_S = 86_400
/** The largest integer of a structured field (RFC 9651 §3.3.1). */
const MOST = 999_999_999_999_999

/** Caps as admission knows them; `reserved` is for attempts that run now. */
export type Budget = Omit<CapsUse, 'agent_hourly' | 'tenant_daily_cpu' | 'tenant_daily_cost'> & {
  agent_hourly?: CapsUse['agent_hourly'] | null | undefined
  tenant_daily_cpu?: (NonNullable<CapsUse['tenant_daily_cpu']> & { reserved?: number }) | null | undefined
  tenant_daily_cost?: (NonNullable<CapsUse['tenant_daily_cost']> & { reserved?: number }) | null | undefined
}

/** The headers; none when nothing is known of the budget, or when its windows are over. */
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
