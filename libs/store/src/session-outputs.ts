/**
 * Outputs of a session: the newest version of each file that its collections stored. A collection is an
 * execution that ran the file operation `collect` and has the session as its `run_id`.
 *
 * Read in two steps, newest first, so that no step grows with the history of the tenant:
 *
 *   1 keys      file operations of the run, by the index on `run_id`
 *   2 results   a few at a time, until every path that is asked for is found or the bound is reached
 */
import {
  omittedArtifactSchema,
  uuidToExecutionId,
  type Artifact,
  type ExecutionId,
  type OmittedArtifact,
} from '@cofferdam/contract'
import { sql, type Kysely, type Transaction } from 'kysely'
import { checkLimit } from './cursor.ts'
import { firstUuidAt } from './invocation-filter.ts'
import { artifactRefs } from './results.ts'
import type { Database } from './tables.ts'

const DAY_MS = 86_400_000
/**
 * Most file operations of a run that are looked at: as many as the keys that a page of audit rows scans
 * (invocation-pages.ts).
 */
const SCAN = 5000
/** Results of the first statement. With the most artifacts (4,096 each) they are 3 MB of JSON. */
const FIRST_AT_ONCE = 4
/**
 * Each statement reads twice as many results as the one before, up to this. After one with more than
 * FEW_FILES files, the next starts again at FIRST_AT_ONCE.
 */
const MOST_AT_ONCE = 64
const FEW_FILES = 1000
/**
 * Most files that are looked at, over all collections: for example, a hundred collections of 500 files. They
 * take about half a second.
 */
const MOST_FILES = 50_000

export interface SessionOutput extends Artifact {
  executionId: ExecutionId
  /** When the collection ended, ISO 8601. */
  storedAt: string
  /** In the blob store. */
  ref: string
}

export interface Collection {
  executionId: ExecutionId
  storedAt: string
  /** Files that it left out, at most `BOUNDS.artifactsOmitted`. */
  omitted: OmittedArtifact[]
  /** The session may have had more files than those that this collection stored or lists as left out. */
  incomplete: boolean
}

export interface OutputsQuery {
  tenantId: string
  runId: string
  /** Outputs that have expired at this time are left out, even if they are not deleted yet. */
  nowMs: number
}

export interface OutputsPage {
  /** In the order of their paths. */
  rows: SessionOutput[]
  /** The last path of the page. Null on the last page. */
  next_cursor: string | null
  /** Null if nothing was collected, or everything has expired. */
  newest: Collection | null
  /** Older collections were not looked at, because there are too many. */
  truncated: boolean
}

interface Stored extends Collection {
  files: (Artifact & { ref: string })[]
}

type Db = Kysely<Database> | Transaction<Database>

/**
 * A page of at most `limit` outputs whose paths come after `after`. Throws `invalid_request` for an invalid
 * limit.
 */
export async function listOutputs(
  db: Db,
  query: OutputsQuery & { limit: number; after?: string },
): Promise<OutputsPage> {
  const limit = checkLimit(query.limit)
  const found = new Map<string, SessionOutput>()
  let newest: Collection | null = null
  const isWhole = await eachCollection(db, query, ({ files, ...collection }) => {
    newest ??= collection
    for (const file of files) if (!found.has(file.path)) found.set(file.path, outputOf(file, collection))
    return true
  })
  const { after } = query
  const paths = [...found.keys()].filter((path) => after === undefined || path > after).toSorted(byCodeUnit)
  const rows = paths.slice(0, limit).flatMap((path) => found.get(path) ?? [])
  return {
    rows,
    next_cursor: paths.length > limit ? (rows.at(-1)?.path ?? null) : null,
    newest,
    truncated: !isWhole,
  }
}

/** The newest version of one output. Null if no collection that is looked at has it. */
export async function findOutput(
  db: Db,
  query: OutputsQuery & { path: string },
): Promise<SessionOutput | null> {
  let found: SessionOutput | null = null
  await eachCollection(db, query, ({ files, ...collection }) => {
    const file = files.find(({ path }) => path === query.path)
    if (file !== undefined) found = outputOf(file, collection)
    return found === null
  })
  return found
}

const outputOf = (
  { path, size, sha256, ref }: Stored['files'][number],
  { executionId, storedAt }: Collection,
): SessionOutput => ({ path, size, sha256, ref, executionId, storedAt })

const byCodeUnit = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/**
 * Calls `see` with each collection, newest first, until `see` returns false. Returns false if a bound (SCAN
 * or MOST_FILES) left older collections out.
 */
async function eachCollection(
  db: Db,
  query: OutputsQuery,
  see: (collection: Stored) => boolean,
): Promise<boolean> {
  const keys = await operationsOf(db, query)
  let left = MOST_FILES
  for (let at = 0, atOnce = FIRST_AT_ONCE; at < keys.length;) {
    const before = left
    for (const collection of await collectionsAt(db, keys.slice(at, at + atOnce))) {
      if (left <= 0) return false
      left -= collection.files.length
      if (!see(collection)) return true
    }
    at += atOnce
    atOnce = before - left > FEW_FILES ? FIRST_AT_ONCE : Math.min(2 * atOnce, MOST_AT_ONCE)
  }
  return keys.length < SCAN
}

interface Key {
  execution_id: string
  attempt: number
  expires_on: string
  finished_at: string
}

/**
 * Attempts of the run that ended well without running a program, so they were file operations. Materialized,
 * because Postgres might otherwise use the index that serves the order and read the tenant's whole history.
 */
async function operationsOf(db: Db, { tenantId, runId, nowMs }: OutputsQuery): Promise<Key[]> {
  const today = Math.floor(nowMs / DAY_MS)
  const tenant = await db
    .selectFrom('tenants')
    .select('output_retention_days')
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst()
  const days = tenant?.output_retention_days ?? null
  const firstKept = firstUuidAt(days === null ? 0 : Math.max(0, today - days) * DAY_MS)
  const { rows } = await sql<Key>`
    with operations as materialized (
      select execution_id, attempt, expires_on, finished_at from sandbox_invocations
      where run_id = ${runId} and tenant_id = ${tenantId}
        and expires_on >= ${new Date(today * DAY_MS).toISOString().slice(0, 10)}::date
        and execution_id >= ${firstKept}::uuid
        and ending = 'ok' and exit_code is null and not quota_charged
    )
    select * from operations order by execution_id desc, attempt desc limit ${SCAN}`.execute(db)
  return rows
}

/** Which of the operations were collections, in the order of the keys. */
async function collectionsAt(db: Db, keys: readonly Key[]): Promise<Stored[]> {
  const rows = await db
    .selectFrom('results')
    .select([
      'execution_id',
      'attempt',
      'artifacts',
      sql<unknown>`result->'artifacts_omitted'`.as('omitted'),
      sql<boolean>`coalesce((result->>'artifacts_incomplete')::boolean, false)`.as('incomplete'),
    ])
    .where('expires_on', 'in', [...new Set(keys.map((key) => key.expires_on))])
    .where(sql<boolean>`execution_id = any(${keys.map((key) => key.execution_id)}::uuid[])`)
    .where(sql<boolean>`result->>'collected_from' is not null`)
    .execute()
  const found = new Map(rows.map((row) => [`${row.execution_id} ${row.attempt}`, row]))
  return keys.flatMap(({ execution_id, attempt, finished_at }) => {
    const row = found.get(`${execution_id} ${attempt}`)
    if (row === undefined) return []
    const omitted = omittedArtifactSchema.array().safeParse(row.omitted)
    return {
      executionId: uuidToExecutionId(execution_id),
      storedAt: finished_at,
      omitted: omitted.data ?? [],
      incomplete: row.incomplete,
      files: artifactRefs(row.artifacts),
    }
  })
}
