/**
 * Inserts audit rows and results of a batch in one statement, so in one transaction and one round trip. The
 * insert into `attempts` claims each (execution, attempt) once. Only claimed attempts get an audit row and a
 * result.
 */
import { uuidToExecutionId } from '@cofferdam/contract'
import { CompiledQuery, type Kysely } from 'kysely'
import { arrayLiteral } from './array-literal.ts'
import { AUDIT_COLUMNS, dayOf, KEY_NAMES, RESULT_COLUMNS, type StorableAttempt } from './attempt-columns.ts'
import { constraintOf, sqlState } from './store-errors.ts'
import type { Database } from './tables.ts'

const COLUMNS = [...AUDIT_COLUMNS, ...RESULT_COLUMNS]
const names = (columns: readonly { name: string }[]): string =>
  columns.map((column) => column.name).join(', ')

/** Prepared on each connection, because parsing and planning takes a third of the time of a single insert. */
export const RECORD_STATEMENT = `
with incoming as (
  select * from unnest(${COLUMNS.map((column, i) => `$${i + 1}::${column.type}[]`).join(', ')})
    as t(${names(COLUMNS)})
), claimed as (
  -- In key order, so that two batches with the same attempts cannot deadlock.
  insert into attempts (execution_id, attempt, expires_on)
  select execution_id, attempt, expires_on from incoming order by execution_id, attempt
  on conflict do nothing
  returning execution_id, attempt
), audited as (
  insert into sandbox_invocations (${names(AUDIT_COLUMNS)})
  select ${names(AUDIT_COLUMNS)} from incoming join claimed using (execution_id, attempt)
  on conflict do nothing
  returning execution_id, attempt
), stored as (
  insert into results (${KEY_NAMES.join(', ')}, ${names(RESULT_COLUMNS)})
  select ${KEY_NAMES.join(', ')}, ${names(RESULT_COLUMNS)}
  from incoming join audited using (execution_id, attempt)
  on conflict do nothing
)
select execution_id, attempt from audited`

/** Identifies an attempt within a batch. */
export const attemptKey = (executionId: string, attempt: number): string => `${executionId}/${attempt}`

/**
 * Inserts attempts with distinct keys and returns the new keys. Creates missing partitions. `knownDays`
 * caches the days that have one.
 */
export async function insertAttempts(
  db: Kysely<Database>,
  attempts: readonly StorableAttempt[],
  knownDays: Set<string>,
): Promise<Set<string>> {
  await ensureDays(db, attempts, knownDays)
  try {
    return await insert(db, attempts)
  } catch (error) {
    if (!isMissingPartition(error)) throw error
    // The partition was dropped after it was cached.
    knownDays.clear()
    await ensureDays(db, attempts, knownDays)
    return await insert(db, attempts)
  }
}

async function insert(db: Kysely<Database>, attempts: readonly StorableAttempt[]): Promise<Set<string>> {
  const parameters = COLUMNS.map((column) => arrayLiteral(attempts.map((attempt) => column.value(attempt))))
  const { rows } = await db.executeQuery<{ execution_id: string; attempt: number }>(
    CompiledQuery.raw(RECORD_STATEMENT, parameters),
  )
  return new Set(rows.map((row) => attemptKey(uuidToExecutionId(row.execution_id), row.attempt)))
}

async function ensureDays(
  db: Kysely<Database>,
  attempts: readonly StorableAttempt[],
  knownDays: Set<string>,
): Promise<void> {
  // More than twice the days of the longest retention (180). Only IDs with wrong times exceed this.
  if (knownDays.size > 400) knownDays.clear()
  for (const day of new Set(attempts.map(dayOf))) {
    if (knownDays.has(day)) continue
    await db.executeQuery(CompiledQuery.raw('select ensure_partition($1::date)', [day]))
    knownDays.add(day)
  }
}

/** Postgres reports "no partition of relation found for row" as a check violation without a constraint. */
function isMissingPartition(error: unknown): boolean {
  return sqlState(error) === '23514' && constraintOf(error) === null
}
