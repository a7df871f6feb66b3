/**
 * Finishes an index that a migration made on the partitioned parent only. `create index` on the parent would
 * stop all writers until the last partition has it. So this module builds each partition's index
 * concurrently, outside of a transaction, and then attaches it to the parent's index. A partition made later
 * has the index from its first row.
 *
 * An interrupted build is continued at the next start, because the parent's index is invalid until all
 * partitions have it. Queries are right meanwhile, only slower.
 */
import type pg from 'pg'
import { sqlState } from './store-errors.ts'

/** Any constant that differs from the other advisory locks of the database. */
const LOCK = 7020260003

/** A build waits for older transactions. An idle one must not delay a process start for longer than this. */
const LOCK_WAIT = '30s'

/** A lock was not free in time, or retention dropped the partition meanwhile. */
const LATER = new Set(['55P03', '42P01'])

const INDEX = { name: 'invocations_finished', columns: '(finished_at, tenant_id)' }

/** Partitions without the index, and what an interrupted build left. Empty for users other than the owner. */
const MISSING = `
  select c.relname as partition, left_over.indisvalid as valid
  from pg_index i
    join pg_class parent on parent.oid = i.indexrelid
    join pg_inherits h on h.inhparent = i.indrelid
    join pg_class c on c.oid = h.inhrelid
    left join pg_class named
      on named.relnamespace = c.relnamespace and named.relname = c.relname || '_finished'
    left join pg_index left_over on left_over.indexrelid = named.oid
  where parent.oid = to_regclass('public.${INDEX.name}') and not i.indisvalid
    and pg_has_role(c.relowner, 'usage')
    and not exists (
      select from pg_inherits a join pg_index child on child.indexrelid = a.inhrelid
      where a.inhparent = i.indexrelid and child.indrelid = c.oid
    )
  order by c.relname`

interface Missing {
  partition: string
  /** Null if there is no index of that name yet. False after an interrupted build. */
  valid: boolean | null
}

/**
 * Builds what is missing. One process does so; others return at once. Returns the partitions that got it.
 * Must not run under an advisory lock that others wait for, because a build waits for all older statements.
 */
export async function buildPartitionIndexes(client: pg.Client): Promise<string[]> {
  const built: string[] = []
  if ((await client.query<Missing>(MISSING)).rows.length === 0) return built
  const { rows } = await client.query<{ got: boolean }>('select pg_try_advisory_lock($1) as got', [LOCK])
  if (rows[0]?.got !== true) return built
  try {
    await client.query(`set lock_timeout = '${LOCK_WAIT}'`)
    for (const missing of (await client.query<Missing>(MISSING)).rows) {
      try {
        await build(client, missing)
        built.push(missing.partition)
      } catch (error) {
        if (!LATER.has(sqlState(error) ?? '')) throw error
      }
    }
  } finally {
    await client.query('select pg_advisory_unlock($1)', [LOCK])
  }
  return built
}

/**
 * Names go into the SQL as they are, because ensure_partition made them of letters, digits and underscores.
 */
async function build(client: pg.Client, { partition, valid }: Missing): Promise<void> {
  const name = `${partition}_finished`
  if (valid === false) await client.query(`drop index concurrently public."${name}"`)
  if (valid !== true)
    await client.query(`create index concurrently "${name}" on public."${partition}" ${INDEX.columns}`)
  await client.query(`alter index public.${INDEX.name} attach partition public."${name}"`)
}
