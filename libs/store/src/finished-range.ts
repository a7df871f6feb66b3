/** Conditions for audit rows by the moment when they ended, which the index `invocations_finished` serves. */
import { sql, type RawBuilder, type SqlBool } from 'kysely'

const DAY_MS = 86_400_000
/** Rows expire at most this many days after they started (migration 0004). */
const MOST_DAYS = 181
/**
 * An attempt ends at most this long after its execution was created: a delay, a wait and a run of 24 h each,
 * and some hours for clocks, jitter and the end of a sandbox. Its row is kept for a day at least.
 */
const OLDEST_MS = 4 * DAY_MS

/** Rows that ended at or after `fromMs` and before `toMs`, in the partitions that can have such rows. */
export function finishedBetween(fromMs: number, toMs: number): RawBuilder<SqlBool> {
  const [from, to] = [new Date(fromMs).toISOString(), new Date(toMs).toISOString()]
  return sql`finished_at >= ${from} and finished_at < ${to}
    and expires_on >= ${dayOf(fromMs - OLDEST_MS)} and expires_on <= ${dayOf(toMs + MOST_DAYS * DAY_MS)}`
}

const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)
