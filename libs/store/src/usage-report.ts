/** Usage and cost of a tenant, summed from its audit rows by the time of the charge. */
import { CofferdamError } from '@cofferdam/contract'
import { sql, type Kysely, type Transaction } from 'kysely'
import type { Database } from './tables.ts'

const DAY_MS = 86_400_000
/** The longest range: the longest retention (180 days) and a few days of margin. */
const MAX_RANGE_MS = 186 * DAY_MS
/** The most groups in an answer. Only a grouping by agent can have more. */
const MAX_USAGE_GROUPS = 1000

export const USAGE_GROUPS = ['day', 'agent', 'backend'] as const
export type UsageGroup = (typeof USAGE_GROUPS)[number]

export interface UsageQuery {
  tenantId: string
  /** Attempts are summed if they were charged at or after `from` and before `to`. Both are ISO 8601. */
  from: string
  to: string
  groupBy: UsageGroup
}

/** Sums over charged attempts. */
export interface UsageSums {
  calls: number
  /** Calls that did not end `ok`. */
  failed: number
  cpu_ms: number
  gb_seconds: number
  run_ms: number
  /** Micro-units. */
  cost: number
}

export interface UsageReport {
  total: UsageSums
  /**
   * `key` is a UTC day, an agent, or a backend (null if none was opened). Days are in order. Other groups are
   * sorted by cost, then calls.
   */
  groups: (UsageSums & { key: string | null })[]
  /** True when there are more groups than shown. `total` counts all of them. */
  truncated: boolean
}

const KEYS = {
  day: sql<string>`to_char(charged_at at time zone 'UTC', 'YYYY-MM-DD')`,
  agent: sql<string>`agent_id`,
  backend: sql<string | null>`backend`,
}

/** Sums charged attempts of a range. Throws `invalid_request` for an invalid or too long range. */
export async function reportUsage(
  db: Kysely<Database> | Transaction<Database>,
  query: UsageQuery,
): Promise<UsageReport> {
  const { rows } = await usageStatement(query).execute(db)
  const { overall: _whole, key: _all, ...total } = rows.find((row) => row.overall === 1) ?? NOTHING
  const groups = rows.filter((row) => row.overall === 0).map(({ overall: _one, ...group }) => group)
  const shown = groups.slice(0, MAX_USAGE_GROUPS)
  if (query.groupBy === 'day') shown.sort((a, b) => (String(a.key) < String(b.key) ? -1 : 1))
  return { total, groups: shown, truncated: groups.length > shown.length }
}

type Row = UsageSums & { key: string | null; overall: number }

const NOTHING: Row = {
  key: null,
  overall: 1,
  calls: 0,
  failed: 0,
  cpu_ms: 0,
  gb_seconds: 0,
  run_ms: 0,
  cost: 0,
}

/** One statement, so that total and groups match. Uses each partition's index (tenant_id, charged_at). */
function usageStatement({ tenantId, from, to, groupBy }: UsageQuery) {
  const [fromMs, toMs] = [Date.parse(from), Date.parse(to)]
  if (!(fromMs < toMs) || toMs - fromMs > MAX_RANGE_MS)
    throw new CofferdamError(
      'invalid_request',
      'Expected `from` before `to`, and at most 186 days between them.',
    )
  // A row expires at most 180 days after its execution was created, and an attempt is charged after its
  // execution was created. So no row charged before `to` expires after this day, and later partitions are not
  // read.
  const lastExpiry = new Date(toMs + 180 * DAY_MS).toISOString().slice(0, 10)
  const key = KEYS[groupBy]
  return sql<Row>`
    select ${key} as key, grouping(${key}) as overall, count(*)::int8 as calls,
      count(*) filter (where ending <> 'ok')::int8 as failed,
      coalesce(sum(charged_cpu_ms), 0)::int8 as cpu_ms,
      coalesce(sum(charged_gb_seconds), 0) as gb_seconds,
      coalesce(sum(duration_ms), 0) as run_ms,
      coalesce(sum(cost), 0)::int8 as cost
    from sandbox_invocations
    where quota_charged and tenant_id = ${tenantId}
      and charged_at >= ${new Date(fromMs).toISOString()} and charged_at < ${new Date(toMs).toISOString()}
      and expires_on <= ${lastExpiry}
    group by grouping sets ((${key}), ())
    order by overall desc, cost desc, calls desc, key
    limit ${MAX_USAGE_GROUPS + 2}`
}
