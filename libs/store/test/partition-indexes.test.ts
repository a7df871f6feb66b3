/**
 * The index on `finished_at`: on every partition, built while others write, and continued after an
 * interruption.
 */
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { migrate } from '../src/index.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { openWriter } from './open-writer.ts'
import { sampleAttempt } from './sample-attempt.ts'

const DAY_MS = 86_400_000

let t: TestStore
beforeAll(async () => {
  t = await openTestStore()
})
afterAll(() => t.close())

const column = async (text: string) => (await t.owner(text)).rows.map((row) => Object.values(row)[0])

/** Partitions with an index on (finished_at, tenant_id) that is attached to the parent's. */
const attached = () =>
  column(`
    select child.indrelid::regclass::text
    from pg_inherits a join pg_index child on child.indexrelid = a.inhrelid
    where a.inhparent = 'invocations_finished'::regclass order by 1`)

const partitions = () =>
  column(`
    select inhrelid::regclass::text from pg_inherits
    where inhparent = 'sandbox_invocations'::regclass order by 1`)

const isValid = async () =>
  (await column(`select indisvalid from pg_index where indexrelid = 'invocations_finished'::regclass`))[0]

/** The state right after the migration, on a database that has partitions already. */
async function unbuild(): Promise<void> {
  await t.owner('drop index invocations_finished')
  await t.owner('create index invocations_finished on only sandbox_invocations (finished_at, tenant_id)')
}

it('is on each new partition', async () => {
  await Promise.all([1, 30].map((retentionDays) => t.store.record(sampleAttempt({ retentionDays }))))
  expect(await partitions()).toHaveLength(2)
  expect(await attached()).toEqual(await partitions())
  expect(await isValid()).toBe(true)
})

it('is built on existing partitions while others write, and is on partitions made meanwhile', async () => {
  await unbuild()
  expect(await isValid()).toBe(false)
  expect(await attached()).toEqual([])
  await using writer = await openWriter(t.url)
  const [partition] = await partitions()
  await writer.client.query(`lock table ${String(partition)} in row exclusive mode`)
  const migrating = migrate(t.url)
  const waiting = `select count(*)::int from pg_stat_activity where datname = current_database()
    and query like 'create index concurrently%' and wait_event_type = 'Lock'`
  await vi.waitFor(async () => expect(await column(waiting)).toEqual([1]), {
    timeout: 20_000,
    interval: 50,
  })
  for (const retentionDays of [1, 30, 60])
    expect(await t.store.record(sampleAttempt({ retentionDays }))).toEqual({ inserted: true })
  // Another process that starts meanwhile does not wait for the build.
  await migrate(t.url)
  await writer.rollback()
  await migrating
  expect(await partitions()).toHaveLength(3)
  expect(await attached()).toEqual(await partitions())
  expect(await isValid()).toBe(true)
})

it('is continued where a build was interrupted', async () => {
  await unbuild()
  const [first, second] = await partitions()
  // The first index is built but not attached. The build of the second was interrupted, which leaves it
  // invalid.
  await t.owner(`create index ${String(first)}_finished on ${String(first)} (finished_at, tenant_id)`)
  await t.owner(`create index ${String(second)}_finished on ${String(second)} (finished_at, tenant_id)`)
  await t.owner(
    `update pg_index set indisvalid = false where indexrelid = '${String(second)}_finished'::regclass`,
  )
  await migrate(t.url)
  expect(await attached()).toEqual(await partitions())
  expect(await isValid()).toBe(true)
  await t.store.record(sampleAttempt({ atMs: Date.now() - DAY_MS }))
  expect(await attached()).toEqual(await partitions())
})
