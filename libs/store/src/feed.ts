/**
 * Audit rows in the order in which they were recorded, for whoever must miss none: rows of long runs appear late, in
 * the middle of any order by id or time. Each row carries the transaction that wrote it; what is below the snapshot's
 * xmin is over for good, so everything up to there is handed out and the cursor stands behind it. A transaction that
 * stays open anywhere on the server and has written something holds the feed back; it is never passed over.
 */
import { CofferdamError, uuidToExecutionId, type AuditRow } from '@cofferdam/contract'
import { sql, type Kysely, type Transaction } from 'kysely'
import { checkLimit } from './cursor.ts'
import { ownerConditions, rowConditions, type InvocationFilter } from './invocation-filter.ts'
import { allOf } from './invocation-pages.ts'
import { toAuditRow } from './invocations.ts'
import type { Database } from './tables.ts'

/** What a feed shows: no times, since it has an order of its own. */
export type FeedFilter = Omit<InvocationFilter, 'from' | 'to' | 'cursor'> & {
  /** `cursor` of the call before; `now` for what is recorded from now on, `beginning` for all that is kept. */
  after: string
}

export interface FeedPage {
  rows: AuditRow[]
  /** Pass it back for what comes next. */
  cursor: string
  /** True when nothing is left at this moment. */
  drained: boolean
}

/** Keys looked at for one page that not every row matches. */
const SCAN = 5000
const FIRST_UUID = '00000000-0000-0000-0000-000000000000'

interface Position {
  xid: string
  uuid: string
  attempt: number
}

/** The next page; empty when nothing new is there. Throws `invalid_request`. */
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
    where (recorded_xid, execution_id, attempt) > (${start.xid}::xid8, ${start.uuid}::uuid, ${start.attempt}::int)
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
    // Not there: of another tenant, filtered out, or dropped with its retention meanwhile.
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

/** The oldest transaction that still runs: everything below it is over. */
async function readHorizon(db: Kysely<Database> | Transaction<Database>): Promise<string> {
  const { rows } = await sql<{ horizon: string }>`
    select pg_snapshot_xmin(pg_current_snapshot())::text as horizon`.execute(db)
  return rows[0]?.horizon ?? '0'
}

function startOf(after: string, horizon: string): Position {
  if (after === 'beginning') return { xid: '0', uuid: FIRST_UUID, attempt: 0 }
  if (after === 'now') return { xid: horizon, uuid: FIRST_UUID, attempt: 0 }
  const position = readPosition(after)
  // Transaction numbers only grow, but for a database that was restored into another server.
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
