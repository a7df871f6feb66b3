/**
 * Audit rows in the order of recording, for readers that must not miss any. An order by ID or time would not
 * do, because rows of long runs appear late in it.
 *
 * Each row has the number of the transaction that wrote it. Transactions below the snapshot's xmin have
 * ended, so the feed returns rows up to there. An open transaction that has written anything on the server
 * holds the feed back.
 */
import { CofferdamError, uuidToExecutionId, type AuditRow } from '@cofferdam/contract'
import { sql, type Kysely, type Transaction } from 'kysely'
import { checkLimit } from './cursor.ts'
import { ownerConditions, rowConditions, type InvocationFilter } from './invocation-filter.ts'
import { allOf } from './invocation-pages.ts'
import { toAuditRow } from './invocations.ts'
import type { Database } from './tables.ts'

/** Filter of a feed, without times, because the feed has its own order. */
export type FeedFilter = Omit<InvocationFilter, 'from' | 'to' | 'cursor'> & {
  /** `cursor` of the previous call, `now` for rows recorded from now on, or `beginning` for all rows. */
  after: string
}

export interface FeedPage {
  rows: AuditRow[]
  /** Pass it as `after` to continue. */
  cursor: string
  /** True when there are no more rows at the moment. */
  drained: boolean
}

/** Keys scanned per page if a filter is set. */
const SCAN = 5000
const FIRST_UUID = '00000000-0000-0000-0000-000000000000'

interface Position {
  xid: string
  uuid: string
  attempt: number
}

/** The next page, empty when there is nothing new. Throws `invalid_request`. */
export async function feedPage(
  db: Kysely<Database> | Transaction<Database>,
  filter: FeedFilter,
): Promise<FeedPage> {
  const limit = checkLimit(filter.limit)
  const conditions = [...ownerConditions(filter), ...rowConditions(filter)]
  const horizon = await readHorizon(db)
  const start = startOf(filter.after, horizon)
  const scan = conditions.length === 0 ? limit : SCAN
  const { rows: keys } = await sql<{
    execution_id: string
    attempt: number
    expires_on: string
    recorded_xid: string
  }>`
    select execution_id, attempt, expires_on, recorded_xid from attempts
    where (recorded_xid, execution_id, attempt)
        > (${start.xid}::xid8, ${start.uuid}::uuid, ${start.attempt}::int)
      and recorded_xid < ${horizon}::xid8
    order by recorded_xid, execution_id, attempt limit ${scan}`.execute(db)
  if (keys.length === 0) return { rows: [], cursor: writePosition(start), drained: true }
  const found = await db
    .selectFrom('sandbox_invocations')
    .selectAll()
    .where('expires_on', 'in', [...new Set(keys.map((key) => key.expires_on))])
    .where(sql<boolean>`execution_id = any(${keys.map((key) => key.execution_id)}::uuid[])`)
    .where(allOf(conditions))
    .execute()
  const byKey = new Map(found.map((row) => [nameOf(row), row]))
  const rows: AuditRow[] = []
  let seen = 0
  for (const key of keys) {
    if (rows.length === limit) break
    seen += 1
    // A row can be missing, because it belongs to another tenant, does not match, or has expired meanwhile.
    const row = byKey.get(nameOf(key))
    if (row !== undefined) rows.push(toAuditRow(row))
  }
  const last = keys[seen - 1]
  const position = last === undefined ? start : positionOf(last)
  return { rows, cursor: writePosition(position), drained: seen === keys.length && keys.length < scan }
}

const nameOf = (row: { execution_id: string; attempt: number }): string =>
  `${uuidToExecutionId(row.execution_id)}/${row.attempt}`

const positionOf = (key: { execution_id: string; attempt: number; recorded_xid: string }): Position => ({
  xid: key.recorded_xid,
  uuid: key.execution_id,
  attempt: key.attempt,
})

/** The oldest transaction that still runs. All below it have ended. */
async function readHorizon(db: Kysely<Database> | Transaction<Database>): Promise<string> {
  const { rows } = await sql<{ horizon: string }>`
    select pg_snapshot_xmin(pg_current_snapshot())::text as horizon`.execute(db)
  return rows[0]?.horizon ?? '0'
}

function startOf(after: string, horizon: string): Position {
  if (after === 'beginning') return { xid: '0', uuid: FIRST_UUID, attempt: 0 }
  if (after === 'now') return { xid: horizon, uuid: FIRST_UUID, attempt: 0 }
  const position = readPosition(after)
  // Transaction numbers only grow, unless the database was restored into another server.
  if (BigInt(position.xid) > BigInt(horizon))
    throw new CofferdamError(
      'invalid_request',
      'cursor: it is ahead of this database, which was restored; begin again with "beginning" or "now".',
    )
  return position
}

const writePosition = ({ xid, uuid, attempt }: Position): string =>
  Buffer.from(`${xid}.${uuid}.${attempt}`).toString('base64url')

function readPosition(cursor: string): Position {
  const text = Buffer.from(cursor.slice(0, 200), 'base64url').toString('utf8')
  const [, xid, uuid, attempt] =
    /^(\d{1,19})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.(\d{1,9})$/.exec(text) ?? []
  if (xid === undefined || uuid === undefined || attempt === undefined)
    throw new CofferdamError(
      'invalid_request',
      'cursor: expected the cursor of an earlier page of this feed.',
    )
  return { xid, uuid, attempt: Number(attempt) }
}
