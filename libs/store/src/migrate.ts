/**
 * Migrates a database to this build's schema. Forward only, each file in its own transaction, one process at
 * a time (advisory lock). Any number of processes may call it at once. A database that is newer than this
 * build is left alone, because during a rolling deploy both builds run.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import pg from 'pg'
import { buildLateIndexes } from './late-indexes.ts'
import { migrationFiles, type Migration } from './migration-files.ts'
import { buildPartitionIndexes } from './partition-indexes.ts'
import { failureOf, sqlState, toStoreError } from './store-errors.ts'

/** Any constant that differs from the other advisory locks of the database. */
const LOCK = 7020260001
const CONNECT_MS = 5000
/** How long to wait for another process that migrates. It may run a long backfill. */
const TURN_WAIT = '10min'
/**
 * How long a migration waits for a table that somebody uses. Until it has the table, everybody else waits
 * behind it, so it gives up soon, lets them pass, and tries again.
 */
const TABLE_WAIT = '500ms'
const TABLE_PAUSE_MS = 1000
/** Longer than a backup of a large database holds its tables. */
const TABLE_PATIENCE_MS = 10 * 60_000
/**
 * Tries of a migration. Roles belong to the whole server, so grants in two of its databases at once fail
 * (XX000 `tuple concurrently updated`).
 */
const ATTEMPTS = 5
/** Postgres' code for a lock that was not free within lock_timeout. */
const LOCK_NOT_AVAILABLE = '55P03'
const ROLES = ['cofferdam_app', 'cofferdam_all_tenants', 'cofferdam_sweeper']

/**
 * Throws `config_invalid` (rights, changed files) or `store_unavailable`. The URL's user owns the schema.
 * `migrations`: those of an earlier build, in tests.
 */
export async function migrate(
  databaseUrl: string,
  migrations: readonly Migration[] = migrationFiles(),
): Promise<void> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    connectionTimeoutMillis: CONNECT_MS,
    application_name: 'cofferdam-migrate',
  })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query(`set search_path = public`)
    if ((await pending(client, migrations)).length > 0) await applyPending(client, migrations)
    await buildLateIndexes(client)
    await buildPartitionIndexes(client)
  } catch (error) {
    throw migrationError(error)
  } finally {
    await client.end().catch(() => {})
  }
}

async function applyPending(client: pg.Client, migrations: readonly Migration[]): Promise<void> {
  await client.query(`set lock_timeout = '${TURN_WAIT}'`)
  await client.query('select pg_advisory_lock($1)', [LOCK])
  // If this throws, the lock is released when the connection ends.
  await client.query(
    'create table if not exists cofferdam_migrations (number integer primary key, name text not null, ' +
      'checksum text not null, applied_at timestamptz not null default now())',
  )
  await checkRights(client)
  await client.query(`set lock_timeout = '${TABLE_WAIT}'`)
  for (const migration of await pending(client, migrations)) await apply(client, migration)
  await client.query('select pg_advisory_unlock($1)', [LOCK])
}

async function pending(client: pg.Client, migrations: readonly Migration[]): Promise<Migration[]> {
  const { rows: table } = await client.query<{ there: boolean }>(
    `select to_regclass('public.cofferdam_migrations') is not null as there`,
  )
  if (table[0]?.there !== true) return [...migrations]
  const { rows } = await client.query<{ number: number; checksum: string }>(
    'select number, checksum from cofferdam_migrations',
  )
  const applied = new Map(rows.map((row) => [row.number, row.checksum]))
  for (const { number, name, checksum, former } of migrations) {
    const known = applied.get(number)
    if (known !== undefined && known !== checksum && !former.includes(known))
      throw new CofferdamError(
        'config_invalid',
        `migration ${name} was applied with another content ` +
          `(${known.slice(0, 12)}, now ${checksum.slice(0, 12)}). ` +
          'Applied files never change: restore the file and write a new one.',
      )
  }
  return migrations.filter((migration) => !applied.has(migration.number))
}

/** With managed Postgres, an administrator may have created the roles beforehand. */
async function checkRights(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ me: string; can: boolean; there: string[] }>(
    `select current_user as me,
       (select rolsuper or rolcreaterole from pg_roles where rolname = current_user) as can,
       array(select rolname::text from pg_roles where rolname = any($1::text[])) as there`,
    [ROLES],
  )
  const [row] = rows
  const missing = ROLES.filter((role) => row?.there.includes(role) === false)
  if (row === undefined || row.can || missing.length === 0) return
  throw new CofferdamError(
    'config_invalid',
    `DATABASE_URL logs in as "${row.me}", which may not create roles, ` +
      `and there is no ${missing.join(' and no ')}. ` +
      'Give it CREATEROLE, or have an administrator run once: ' +
      missing.map((role) => `create role ${role} nologin; `).join('') +
      'grant cofferdam_app to cofferdam_all_tenants; ' +
      `grant ${ROLES.join(', ')} to "${row.me}";`,
  )
}

async function apply(client: pg.Client, migration: Migration): Promise<void> {
  const untilMs = Date.now() + TABLE_PATIENCE_MS
  while (!(await tryToApply(client, migration, Date.now() >= untilMs))) await pause(TABLE_PAUSE_MS)
}

/** False when a table was not free in time. With `isLast` this throws instead. */
async function tryToApply(
  client: pg.Client,
  migration: Migration,
  isLast: boolean,
  attempt = 1,
): Promise<boolean> {
  try {
    await client.query('begin')
    await client.query(migration.sql)
    await client.query('insert into cofferdam_migrations (number, name, checksum) values ($1, $2, $3)', [
      migration.number,
      migration.name,
      // Stores a former checksum of the file if it has one, so that a build from before the file was replaced
      // still accepts the database.
      migration.former[0] ?? migration.checksum,
    ])
    await client.query('commit')
    return true
  } catch (error) {
    await client.query('rollback')
    if (sqlState(error) === LOCK_NOT_AVAILABLE && !isLast) return false
    const raced = sqlState(error) === 'XX000' || sqlState(error) === '23505'
    if (raced && attempt < ATTEMPTS) return await tryToApply(client, migration, isLast, attempt + 1)
    if (failureOf(error) === 'away') throw error
    const why = error instanceof Error ? error.message : String(error)
    throw new CofferdamError('config_invalid', `migration ${migration.name} failed: ${why}`, { cause: error })
  }
}

function migrationError(error: unknown): CofferdamError {
  return toStoreError(error, 'the migrations')
}
