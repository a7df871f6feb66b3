/** Pages of audit rows, newest first: keys, then rows (see invocation-filter.ts). */
import { sql, type Kysely, type RawBuilder, type SqlBool, type Transaction } from 'kysely'
import { checkLimit, writeCursor } from './cursor.ts'
import {
  keyConditions,
  matchesEveryKey,
  ownerConditions,
  rowConditions,
  type InvocationFilter,
} from './invocation-filter.ts'
import type { Database, InvocationRow } from './tables.ts'

/**
 * Keys scanned per page when not every row matches. 5,000 rows take 50 ms, so a rare match among a million
 * rows takes 200 short pages instead of one statement that times out.
 */
const SCAN = 5000

export interface RowPage {
  rows: InvocationRow[]
  /** Null at the end. A page can have fewer rows than requested, even none, and still have a next page. */
  next_cursor: string | null
}

interface Key {
  execution_id: string
  attempt: number
  expires_on: string
}

/** `also`: a condition that nearly every row meets, so that a page needs few more keys than rows. */
export interface PageOptions {
  also?: RawBuilder<SqlBool>
}

export async function invocationPage(
  db: Kysely<Database> | Transaction<Database>,
  filter: InvocationFilter,
  { also }: PageOptions = {},
): Promise<RowPage> {
  const limit = checkLimit(filter.limit)
  const scan = matchesEveryKey(filter) ? (also === undefined ? limit + 1 : 2 * limit + 50) : SCAN
  const keys = await nextKeys(db, filter, scan)
  const [first, last] = [keys[0], keys.at(-1)]
  if (first === undefined || last === undefined) return { rows: [], next_cursor: null }
  const rows = await db
    .selectFrom('sandbox_invocations')
    .selectAll()
    .where('expires_on', 'in', [...new Set(keys.map((key) => key.expires_on))])
    .where(
      allOf([
        sql`(execution_id, attempt) >= (${last.execution_id}::uuid, ${last.attempt}::int)`,
        sql`(execution_id, attempt) <= (${first.execution_id}::uuid, ${first.attempt}::int)`,
        ...ownerConditions(filter),
        ...rowConditions(filter),
        ...(also === undefined ? [] : [also]),
      ]),
    )
    .orderBy('execution_id', 'desc')
    .orderBy('attempt', 'desc')
    .limit(limit + 1)
    .execute()
  const shown = rows.slice(0, limit)
  const edge = rows.length > limit ? shown.at(-1) : keys.length === scan ? last : undefined
  return { rows: shown, next_cursor: edge === undefined ? null : writeCursor(positionOf(edge)) }
}

async function nextKeys(
  db: Kysely<Database> | Transaction<Database>,
  filter: InvocationFilter,
  count: number,
): Promise<Key[]> {
  const everybody = filter.tenantId === null
  const conditions = [...keyConditions(filter), ...(everybody ? [] : ownerConditions(filter))]
  const { rows } = await sql<Key>`
    select execution_id, attempt, expires_on
    from ${sql.table(everybody ? 'attempts' : 'sandbox_invocations')}
    where ${allOf(conditions)}
    order by execution_id desc, attempt desc limit ${count}`.execute(db)
  return rows
}

const positionOf = ({ execution_id, attempt }: Key) => ({ executionUuid: execution_id, attempt })

export const allOf = (conditions: readonly RawBuilder<SqlBool>[]): RawBuilder<SqlBool> =>
  conditions.length === 0 ? sql`true` : sql`(${sql.join([...conditions], sql` and `)})`
