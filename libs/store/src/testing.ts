/**
 * Databases for tests: copies of a template that is migrated once per server. A copy and its first connection
 * cost 26 ms of CPU time, and 60 if Postgres copies block by block, its default.
 */
import { randomBytes } from 'node:crypto'
import { testPostgres } from '@cofferdam/embedded/testing'
import pg from 'pg'
import { migrate } from './migrate.ts'
import { migrationFiles, schemaChecksum } from './migration-files.ts'

/**
 * Timeouts for a store that a test opens itself. Such a store has no outbox, so a write has to wait for a
 * slow Postgres instead of failing after the default 2 s.
 */
export const PATIENT_TIMEOUTS = { connectMs: 30_000, statementMs: 30_000 } as const

export interface TestDatabase {
  url: string
  /**
   * Drops the database and cuts its open connections. Also stops the server if it was started for this
   * database alone.
   */
  drop(): Promise<void>
}

/** Migrates a database to the schema of an earlier build, whose newest migration is `last`. */
export const migrateUpTo = (url: string, last: number): Promise<void> =>
  migrate(
    url,
    migrationFiles().filter(({ number }) => number <= last),
  )

/** Advisory lock in the server's `postgres` database, for creating the template. */
const LOCK = 7020260003

/** Creates a migrated, empty database. With `template: false` it has no schema. */
export async function createTestDatabase(options: { template?: boolean } = {}): Promise<TestDatabase> {
  const server = await testPostgres()
  const name = `test_${randomBytes(8).toString('hex')}`
  try {
    await onServer(server.url, async (client) => {
      if (options.template === false) await client.query(`create database ${name}`)
      else {
        const template = await readyTemplate(client, server.url)
        await client.query(`create database ${name} template ${template} strategy file_copy`)
      }
    })
  } catch (error) {
    await server.stop()
    throw error
  }
  return {
    url: onDatabase(server.url, name),
    async drop() {
      try {
        await onServer(server.url, (client) => client.query(`drop database if exists ${name} with (force)`))
      } finally {
        await server.stop()
      }
    },
  }
}

async function readyTemplate(client: pg.Client, serverUrl: string): Promise<string> {
  const template = `template_${schemaChecksum().slice(0, 16)}`
  const exists = async (): Promise<boolean> =>
    (await client.query('select from pg_database where datname = $1', [template])).rowCount === 1
  if (await exists()) return template
  await client.query('select pg_advisory_lock($1)', [LOCK])
  try {
    if (await exists()) return template
    const fresh = `${template}_${randomBytes(4).toString('hex')}`
    await client.query(`create database ${fresh}`)
    await migrate(onDatabase(serverUrl, fresh))
    // Renamed when complete, so that a failed migration leaves no template.
    await client.query(`alter database ${fresh} rename to ${template}`)
    return template
  } finally {
    await client.query('select pg_advisory_unlock($1)', [LOCK])
  }
}

function onDatabase(url: string, name: string): string {
  return url.replace(/\/[^/?]+(\?|$)/, `/${name}$1`)
}

async function onServer<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: onDatabase(url, 'postgres') })
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
