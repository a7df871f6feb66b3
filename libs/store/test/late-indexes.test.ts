/** Indexes that are built after the migrations: while others write, once, and again after an interruption. */
import pg from 'pg'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { migrate } from '../src/index.ts'
import { createTestDatabase, migrateUpTo } from '../src/testing.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { openWriter } from './open-writer.ts'
import { sampleAttempt } from './sample-attempt.ts'

let t: TestStore
beforeAll(async () => {
  t = await openTestStore()
})
afterAll(() => t.close())

const LATE = ['attempts_recorded', 'tenant_policy_events_caps', 'tenant_policy_events_type']
const VALID = `
  select c.relname as name from pg_index i join pg_class c on c.oid = i.indexrelid
  where c.relname = any (array['${LATE.join(`','`)}']) and i.indisvalid order by 1`
const names = (rows: readonly Record<string, unknown>[]) => rows.map((row) => row['name'])
const valid = async () => names((await t.owner(VALID)).rows)

it('are there after the migrations', async () => {
  expect(await valid()).toEqual(LATE)
})

it('are built while others write', async () => {
  await t.owner('drop index attempts_recorded, tenant_policy_events_type')
  expect(await valid()).toEqual(['tenant_policy_events_caps'])
  await using writer = await openWriter(t.url)
  const migrating = migrate(t.url)
  const waiting = `select 1 from pg_stat_activity where datname = current_database()
    and query like 'create index concurrently attempts_recorded%' and wait_event_type = 'Lock'`
  await vi.waitFor(async () => expect((await t.owner(waiting)).rows).toHaveLength(1), {
    timeout: 20_000,
    interval: 50,
  })
  expect(await t.store.record(sampleAttempt())).toEqual({ inserted: true })
  // Another process that starts meanwhile does not wait for the build.
  await migrate(t.url)
  expect(await valid()).toEqual(['tenant_policy_events_caps'])
  await writer.rollback()
  await migrating
  expect(await valid()).toEqual(LATE)
})

it('are built again where a build was interrupted', async () => {
  await t.owner(`update pg_index set indisvalid = false where indexrelid = 'attempts_recorded'::regclass`)
  expect(await valid()).not.toContain('attempts_recorded')
  await migrate(t.url)
  expect(await valid()).toEqual(LATE)
})

it('are built as soon as their migration is applied, and not before', async () => {
  const database = await createTestDatabase({ template: false })
  const client = new pg.Client({ connectionString: database.url })
  try {
    await client.connect()
    for (const [last, built] of [
      [8, []],
      [9, ['attempts_recorded']],
      [25, ['attempts_recorded', 'tenant_policy_events_caps']],
      [26, LATE],
    ] as const) {
      await migrateUpTo(database.url, last)
      expect(names((await client.query(VALID)).rows), `after ${last}`).toEqual(built)
    }
  } finally {
    await client.end()
    await database.drop()
  }
})
