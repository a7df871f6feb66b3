/**
 * Indexes of migrations on tables that may be large. `create index` in a migration would stop all writers of
 * the table until it has read every row. So these are built concurrently, after the migrations and outside of
 * their transactions. Queries are right meanwhile, only slower. An interrupted build is repeated at the next
 * start. Indexes of partitioned tables need more (partition-indexes.ts).
 */
import type pg from 'pg'
import { sqlState } from './store-errors.ts'

/** Any constant that differs from the other advisory locks of the database. */
const LOCK = 7020260004

/** A build waits for older transactions. An idle one must not delay a process start for longer than this. */
const LOCK_WAIT = '30s'
/** Postgres' code for a lock that was not free in time. */
const LOCK_NOT_AVAILABLE = '55P03'

interface LateIndex {
  name: string
  /** Number of the migration that it belongs to. */
  migration: number
  table: string
  definition: string
}

const INDEXES: readonly LateIndex[] = [
  {
    name: 'attempts_recorded',
    migration: 9,
    table: 'attempts',
    definition: '(recorded_xid, execution_id, attempt)',
  },
  {
    name: 'tenant_policy_events_caps',
    migration: 25,
    table: 'tenant_policy_events',
    definition: `(tenant_id, id desc) where event_type = 'caps'`,
  },
  {
    name: 'tenant_policy_events_type',
    migration: 26,
    table: 'tenant_policy_events',
    definition: '(event_type, id desc)',
  },
]

/** Indexes that are missing or unfinished, if their migration was applied and this user owns the table. */
const MISSING = `
  select wanted.name, named.oid is not null as unfinished
  from unnest($1::text[], $2::int[], $3::text[]) as wanted (name, migration, owner)
    join cofferdam_migrations applied on applied.number = wanted.migration
    join pg_class t on t.oid = to_regclass('public.' || wanted.owner)
    left join pg_class named on named.relnamespace = t.relnamespace and named.relname = wanted.name
    left join pg_index i on i.indexrelid = named.oid
  where i.indisvalid is not true and pg_has_role(t.relowner, 'usage')`

interface Missing {
  name: string
  unfinished: boolean
}

async function missingIndexes(client: pg.Client): Promise<Missing[]> {
  const { rows } = await client.query<Missing>(MISSING, [
    INDEXES.map(({ name }) => name),
    INDEXES.map(({ migration }) => migration),
    INDEXES.map(({ table }) => table),
  ])
  return rows
}

/**
 * Builds what is missing. One process does so; others return at once. Must not run under an advisory lock
 * that others wait for, because a build waits for all older statements.
 */
export async function buildLateIndexes(client: pg.Client): Promise<void> {
  if ((await missingIndexes(client)).length === 0) return
  const { rows } = await client.query<{ got: boolean }>('select pg_try_advisory_lock($1) as got', [LOCK])
  if (rows[0]?.got !== true) return
  try {
    await client.query(`set lock_timeout = '${LOCK_WAIT}'`)
    for (const missing of await missingIndexes(client)) await build(client, missing)
  } finally {
    await client.query('select pg_advisory_unlock($1)', [LOCK])
  }
}

async function build(client: pg.Client, { name, unfinished }: Missing): Promise<void> {
  const index = INDEXES.find((one) => one.name === name)
  if (index === undefined) return
  try {
    if (unfinished) await client.query(`drop index concurrently public.${name}`)
    await client.query(`create index concurrently ${name} on public.${index.table} ${index.definition}`)
  } catch (error) {
    if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error
  }
}
