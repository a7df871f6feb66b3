import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { migrate } from '../src/index.ts'
import { migrationFiles } from '../src/migration-files.ts'
import { createTestDatabase, type TestDatabase } from '../src/testing.ts'

const run = promisify(execFile)
let database: TestDatabase

beforeEach(async () => {
  database = await createTestDatabase({ template: false })
})
afterEach(() => database.drop())

async function query(text: string, url = database.url): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(text)).rows
  } finally {
    await client.end()
  }
}

describe('migrate', () => {
  it('applies each file once when 8 processes migrate at the same time', async () => {
    const script = fileURLToPath(new URL('migrate-in-process.ts', import.meta.url))
    await Promise.all(Array.from({ length: 8 }, () => run(process.execPath, [script, database.url])))
    const applied = await query('select number, name, checksum from cofferdam_migrations order by number')
    expect(applied).toEqual(
      migrationFiles().map(({ number, name, checksum, former }) => ({
        number,
        name,
        checksum: former[0] ?? checksum,
      })),
    )
  })

  it('works in several databases of one server at the same time', async () => {
    const others = await Promise.all([
      createTestDatabase({ template: false }),
      createTestDatabase({ template: false }),
    ])
    try {
      const all = [database, ...others]
      await Promise.all(all.map(({ url }) => migrate(url)))
      for (const { url } of all) expect(await query('select from tenants', url)).toEqual([])
    } finally {
      await Promise.all(others.map((other) => other.drop()))
    }
  })

  it('refuses a database in which an applied file had another content', async () => {
    await migrate(database.url)
    await query(`update cofferdam_migrations set checksum = 'other' where number = 2`)
    await expect(migrate(database.url)).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining('0002-tenants.sql was applied with another content'),
    })
  })

  it('accepts a replaced file under its former checksum and under its own', async () => {
    await migrate(database.url)
    await migrate(database.url)
    const replaced = migrationFiles().find(({ former }) => former.length > 0)
    await query(
      `update cofferdam_migrations set checksum = '${replaced?.checksum}' where number = ${replaced?.number}`,
    )
    await expect(migrate(database.url)).resolves.toBeUndefined()
  })

  it('leaves a database unchanged that is newer than this build', async () => {
    await migrate(database.url)
    await query(`insert into cofferdam_migrations (number, name, checksum) values (9999, 'later', 'x')`)
    await migrate(database.url)
    expect(await query('select count(*)::int as n from cofferdam_migrations')).toEqual([
      { n: migrationFiles().length + 1 },
    ])
  })

  it('rolls back a file that fails, and names it', async () => {
    await query('create table templates (mine int)')
    await expect(migrate(database.url)).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining(
        '0003-templates-and-keys.sql failed: relation "templates" already exists',
      ),
    })
    expect(await query(`select to_regclass('api_keys') as t`)).toEqual([{ t: null }])
    await query('drop table templates')
    await migrate(database.url)
  })

  it('lets writers pass while a long transaction keeps it from a table', async () => {
    await migrate(
      database.url,
      migrationFiles().filter(({ number }) => number < 25),
    )
    const reader = new pg.Client({ connectionString: database.url })
    await reader.connect()
    try {
      // This transaction stays open, as a backup's does or one that somebody forgot.
      await reader.query('begin')
      await reader.query('select * from api_keys')
      const migrated = migrate(database.url)
      const waits = `select 1 from pg_locks l join pg_class c on c.oid = l.relation
        where not l.granted and c.relname = 'api_keys'`
      await vi.waitFor(async () => expect(await query(waits)).toHaveLength(1), {
        timeout: 30_000,
        interval: 5,
      })
      // This write must not wait: a migration that stayed in the lock queue would hold it up until the reader
      // ends.
      await query(`update api_keys set label = label`)
      await reader.query('commit')
      await migrated
      expect(await query('select count(*)::int as n from cofferdam_migrations')).toEqual([
        { n: migrationFiles().length },
      ])
    } finally {
      await reader.end()
    }
  })

  it('throws store_unavailable when no server listens', async () => {
    await expect(migrate('postgres://postgres@/x?host=/nowhere')).rejects.toMatchObject({
      code: 'store_unavailable',
    })
  })
})
