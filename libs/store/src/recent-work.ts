/** How long workers were busy with ended attempts of each tenant in a short range of time. */
import { sql, type Kysely } from 'kysely'
import { finishedBetween } from './finished-range.ts'
import type { Database } from './tables.ts'

/**
 * Milliseconds of [fromMs, toMs) in which a worker had attempts of a tenant that have ended since, by tenant.
 * Attempts count from the take to the ending. Those that still run are not in the store.
 */
export async function recentWork(
  db: Kysely<Database>,
  fromMs: number,
  toMs: number,
): Promise<Map<string, number>> {
  const [from, to] = [new Date(fromMs).toISOString(), new Date(toMs).toISOString()]
  const { rows } = await sql<{ tenant_id: string; busy_ms: number }>`
    select tenant_id, sum(extract(epoch from
        least(finished_at, ${to}::timestamptz) - greatest(started_at, ${from}::timestamptz)) * 1000)::float8
      as busy_ms
    from sandbox_invocations
    -- What ends a little later was busy before. It is in the store already if the clocks differ.
    where ${finishedBetween(fromMs, toMs + 60_000)} and started_at < ${to}
    group by tenant_id`.execute(db)
  return new Map(rows.map((row) => [row.tenant_id, row.busy_ms]))
}
