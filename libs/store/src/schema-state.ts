/** How far a database is migrated, compared with this build. Reads only. */
import pg from 'pg'
import { migrationFiles } from './migration-files.ts'
import { toStoreError } from './store-errors.ts'

/** Number of the newest migration of this build. */
export const SCHEMA_VERSION = Math.max(...migrationFiles().map(({ number }) => number))

export interface SchemaState {
  /** Number of the newest migration that was applied. 0 for an empty database. */
  database: number
  build: number
  /** Names of this build's migrations that the database lacks. */
  pending: string[]
}

/** Throws `store_unavailable`. */
export async function readSchemaState(databaseUrl: string): Promise<SchemaState> {
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: 5000 })
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows: table } = await client.query<{ there: boolean }>(
      `select to_regclass('public.cofferdam_migrations') is not null as there`,
    )
    const { rows } =
      table[0]?.there === true
        ? await client.query<{ number: number }>('select number from public.cofferdam_migrations')
        : { rows: [] }
    const applied = new Set(rows.map(({ number }) => number))
    return {
      database: Math.max(0, ...applied),
      build: SCHEMA_VERSION,
      pending: migrationFiles().flatMap(({ number, name }) => (applied.has(number) ? [] : [name])),
    }
  } catch (error) {
    throw toStoreError(error, 'a look at its schema')
  } finally {
    await client.end().catch(() => {})
  }
}
