/**
 * Figures by minute (or a longer step), from the audit rows of attempts that ended in a range: how many, how
 * long they waited and ran, what they cost. One statement that reads the newest rows of the range, at most
 * `MAX_ROWS`, through the index on their ends. It takes no lock that others wait for, and the pool's
 * statement timeout ends it.
 */
import { CofferdamError } from '@cofferdam/contract'
import { sql, type Kysely, type RawBuilder, type Transaction } from 'kysely'
import { finishedBetween } from './finished-range.ts'
import { sqlState } from './store-errors.ts'
import type { Database } from './tables.ts'

const MINUTE_MS = 60_000
/** The longest range. With the shortest step it has 1,440 steps. */
export const MAX_SERIES_MS = 24 * 60 * MINUTE_MS
/** Most groups of an answer. The rest is one more group. */
export const MAX_SERIES_GROUPS = 20
/**
 * Most rows that one statement reads. 50,000 take 0.4 to 1.7 s on two cores with a load of 20, and its
 * timeout is 2 s.
 */
const MAX_ROWS = 50_000

export const SERIES_GROUPS = ['ending', 'backend', 'tenant'] as const
export type SeriesGroup = (typeof SERIES_GROUPS)[number]

export interface SeriesQuery {
  /** Null for all tenants, for admins. */
  tenantId: string | null
  /** Attempts that ended at or after `fromMs` and before `toMs`, both rounded outwards to the step. */
  fromMs: number
  toMs: number
  /** A whole number of minutes. */
  stepMs: number
  /** Undefined: only the total. */
  groupBy?: SeriesGroup | undefined
  /** For tests. Default: `MAX_ROWS`. */
  maxRows?: number
}

/** What ended in one step. */
export interface SeriesFigures {
  count: number
  /** Milliseconds from enqueue to the take: median and 95th percentile, each the value of one attempt. */
  wait_p50_ms: number | null
  wait_p95_ms: number | null
  /** Milliseconds from the take to the ending, of attempts that opened a sandbox. Null if there are none. */
  run_p50_ms: number | null
  run_p95_ms: number | null
  /** Micro-units. */
  cost: number
}

export interface SeriesGroupFigures {
  /** Ending, backend (null: none was opened) or tenant. */
  key: string | null
  /** Figures by step, the first step is 0. Steps without attempts are left out. */
  steps: Map<number, SeriesFigures>
}

export interface Series {
  fromMs: number
  toMs: number
  stepMs: number
  /** Later than `fromMs` if there were too many rows: steps before this were not counted. */
  countedFromMs: number
  total: Map<number, SeriesFigures>
  /** Those with the most attempts, most first. */
  groups: SeriesGroupFigures[]
  /** The groups beyond `MAX_SERIES_GROUPS` together. Null if there are none. */
  rest: Map<number, SeriesFigures> | null
}

/**
 * A key is never null, so that Postgres can join the groups by hash. No backend has an empty name, so '' can
 * stand for attempts without a backend.
 */
const KEYS = { ending: sql`ending`, backend: sql`coalesce(backend, '')`, tenant: sql`tenant_id` }

/** The server ended the statement at its timeout. */
const TOO_LONG = '57014'

interface Row extends SeriesFigures {
  step: number | null
  /** 0: one group of a step. 1: a whole step. 3: the whole range. */
  level: number
  /** Rank of the group, from 1. Above `MAX_SERIES_GROUPS` for the rest. */
  rank: number | null
  key: string | null
  oldest: string
}

/** Throws `invalid_request` for an empty range, or one longer than 24 h. */
export async function minuteSeries(
  db: Kysely<Database> | Transaction<Database>,
  query: SeriesQuery,
): Promise<Series> {
  const { stepMs } = query
  const fromMs = Math.floor(query.fromMs / stepMs) * stepMs
  const toMs = Math.ceil(query.toMs / stepMs) * stepMs
  if (!(query.fromMs < query.toMs) || query.toMs - query.fromMs > MAX_SERIES_MS)
    throw new CofferdamError(
      'invalid_request',
      'Expected `from` before `to`, and at most 24 hours between them.',
    )
  const maxRows = query.maxRows ?? MAX_ROWS
  const rows = await read(db, { ...query, fromMs, toMs }, maxRows)
  const whole = rows.find((row) => row.level === 3)
  const isCut = whole !== undefined && whole.count > maxRows
  // The step of the oldest row that was read may be incomplete.
  const countedFromMs = isCut ? (Math.floor(Date.parse(whole.oldest) / stepMs) + 1) * stepMs : fromMs
  const first = (countedFromMs - fromMs) / stepMs
  const counted = rows.filter(({ step }) => step !== null && step >= first)
  const ofGroups = counted.filter(({ level }) => level === 0)
  const isGrouped = query.groupBy !== undefined
  const rest = ofGroups.filter(({ rank }) => rank !== null && rank > MAX_SERIES_GROUPS)
  return {
    fromMs,
    toMs,
    stepMs,
    countedFromMs,
    total: byStep(counted.filter(({ level }) => level === (isGrouped ? 1 : 0))),
    groups: isGrouped ? groupsOf(ofGroups.filter((row) => !rest.includes(row))) : [],
    rest: rest.length === 0 ? null : byStep(rest),
  }
}

async function read(
  db: Kysely<Database> | Transaction<Database>,
  query: SeriesQuery,
  maxRows: number,
): Promise<Row[]> {
  try {
    return (await statement(query, maxRows).execute(db)).rows
  } catch (error) {
    if (sqlState(error) !== TOO_LONG) throw error
    throw new CofferdamError(
      'store_unavailable',
      'The figures by minute took too long. Ask for a shorter range, or again later.',
      { cause: error },
    )
  }
}

function groupsOf(rows: readonly Row[]): SeriesGroupFigures[] {
  const ranks = [...new Set(rows.map(({ rank }) => rank))].toSorted((a, b) => Number(a) - Number(b))
  return ranks.map((rank) => {
    const own = rows.filter((row) => row.rank === rank)
    return { key: own[0]?.key || null, steps: byStep(own) }
  })
}

const byStep = (rows: readonly Row[]): Map<number, SeriesFigures> =>
  new Map(
    rows.map(({ step, count, wait_p50_ms, wait_p95_ms, run_p50_ms, run_p95_ms, cost }) => [
      step ?? 0,
      { count, wait_p50_ms, wait_p95_ms, run_p50_ms, run_p95_ms, cost },
    ]),
  )

function statement({ tenantId, fromMs, toMs, stepMs, groupBy }: SeriesQuery, maxRows: number) {
  const key: RawBuilder<unknown> = groupBy === undefined ? sql`''` : KEYS[groupBy]
  const own = tenantId === null ? sql`true` : sql`tenant_id = ${tenantId}`
  const quantiles = (column: string, which: RawBuilder<unknown>) =>
    sql`percentile_disc(array[0.5, 0.95]) within group (order by ${sql.ref(column)}) filter (where ${which})`
  const levels = groupBy === undefined ? sql`(step, rank), ()` : sql`(step, rank), (step), ()`
  return sql<Row>`
    with newest as materialized (
      select finished_at, ${key} as key, backend, queue_ms, duration_ms, cost from sandbox_invocations
      where ${own} and ${finishedBetween(fromMs, toMs)}
      order by finished_at desc limit ${maxRows + 1}
    ), ranks as (
      select key,
        least(row_number() over (order by count(*) desc, key), ${MAX_SERIES_GROUPS + 1})::int as rank
      from newest group by key
    ), placed as (
      select floor((extract(epoch from finished_at) - ${fromMs / 1000}) / ${stepMs / 1000})::int as step,
        rank, newest.*
      from newest join ranks on newest.key = ranks.key
    ), summed as (
      select step, rank, grouping(step, rank) as level, min(key) as key, min(finished_at) as oldest,
        count(*)::int as count, coalesce(sum(cost), 0)::int8 as cost,
        ${quantiles('queue_ms', sql`true`)} as wait,
        ${quantiles('duration_ms', sql`backend is not null`)} as run
      from placed group by grouping sets (${levels})
    )
    select step, rank, level, key, oldest, count, cost, wait[1] as wait_p50_ms, wait[2] as wait_p95_ms,
      run[1] as run_p50_ms, run[2] as run_p95_ms
    from summed order by step`
}
