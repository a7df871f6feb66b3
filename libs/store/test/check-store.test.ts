/** The checks of the store that a worker makes before it takes executions. */
import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createStore } from '../src/index.ts'
import { PATIENT_TIMEOUTS } from '../src/testing.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'

let test: TestStore
beforeAll(async () => {
  test = await openTestStore()
})
afterAll(() => test.close())

async function check(databaseUrl = test.url): Promise<void> {
  await using store = await createStore({ databaseUrl, blobDir: test.blobDir, timeouts: PATIENT_TIMEOUTS })
  await store.check()
}

it('the check accepts a writable database and folder', async () => {
  await check()
})

it('the check refuses a schema that is older than this build, and names both versions', async () => {
  const newest = 'select max(number) from cofferdam_migrations'
  const { rows } = await test.owner(`delete from cofferdam_migrations where number = (${newest}) returning *`)
  const { number, name, checksum, applied_at: appliedAt } = rows[0] ?? {}
  const before = Object.values((await test.owner(newest)).rows[0] ?? {})[0]
  await expect(check()).rejects.toMatchObject({
    code: 'config_invalid',
    message: expect.stringMatching(
      `schema version ${String(before)}.* needs ${String(number)}.*cofferdam setup`,
    ),
  })
  await test.owner('insert into cofferdam_migrations values ($1, $2, $3, $4)', [
    number,
    name,
    checksum,
    appliedAt,
  ])
})

it('the check accepts a newer schema, because both builds run during a rolling deploy', async () => {
  await test.owner(`insert into cofferdam_migrations (number, name, checksum) values (9999, 'later', '')`)
  await check()
  await test.owner('delete from cofferdam_migrations where number = 9999')
})

it('the check refuses a read-only database, such as a replica', async () => {
  const readOnly = `${test.url}${test.url.includes('?') ? '&' : '?'}options=-c%20default_transaction_read_only%3Don`
  await expect(check(readOnly)).rejects.toMatchObject({
    code: 'store_unavailable',
    message: expect.stringContaining('read-only'),
  })
})

it('the check refuses a blob folder that cannot be written', async () => {
  rmSync(test.blobDir, { recursive: true })
  await expect(test.store.check()).rejects.toMatchObject({
    code: 'config_invalid',
    message: expect.stringMatching(/blob folder .*cannot be written: ENOENT/),
  })
  await check()
})
