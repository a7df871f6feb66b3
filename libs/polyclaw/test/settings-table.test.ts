/** The settings record: versions, events, and work that one process at a time does. */
import { CofferdamError } from '@cofferdam/contract'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createStore, type Store } from '@cofferdam/store'
import { createTestDatabase, PATIENT_TIMEOUTS, type TestDatabase } from '@cofferdam/store/testing'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSandboxConfigs, type SandboxConfigs } from '../src/settings-table.ts'

const blobDir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
let database: TestDatabase
let store: Store
let sandboxConfig: SandboxConfigs
beforeAll(async () => {
  database = await createTestDatabase()
  store = await createStore({ databaseUrl: database.url, blobDir, timeouts: PATIENT_TIMEOUTS })
  sandboxConfig = createSandboxConfigs(store)
})
afterAll(async () => {
  await store[Symbol.asyncDispose]()
  await database.drop()
  rmSync(blobDir, { recursive: true, force: true })
})

test('begins with the defaults: disabled, with sync, and 17 whitelist entries', async () => {
  const { settings, version, work } = await sandboxConfig.get()
  expect(settings).toMatchObject({
    enabled: false,
    sync_data: true,
    session_pool_endpoint: '',
    pool_name: '',
  })
  expect(settings.whitelist).toHaveLength(17)
  expect([version, work]).toEqual([1, null])
})

test('applies a change as a whole, with a new version and an event with its author', async () => {
  const changed = await sandboxConfig.change('key:1', 1, (now) => ({ ...now, sync_data: false }))
  expect(changed).toMatchObject({ version: 2, settings: { sync_data: false } })
  await expect(sandboxConfig.change('key:1', 1, (now) => now)).rejects.toMatchObject({ code: 'conflict' })
  await expect(
    sandboxConfig.change('key:1', null, () => {
      throw new CofferdamError('invalid_request', 'no')
    }),
  ).rejects.toThrow('no')
  // A change to the same settings creates no version and no event.
  expect((await sandboxConfig.change('key:1', null, (now) => now)).version).toBe(2)
  const events = await sandboxConfig.events({ limit: 10 })
  expect(events).toMatchObject([
    {
      actor: 'key:1',
      event_type: 'changed',
      source: 'api',
      before: { sync_data: true },
      after: { sync_data: false },
    },
  ])
})

test('gives work to one holder at a time, and to the next one when the lease has expired', async () => {
  const work = { kind: 'making' as const, plan: { pool_name: 'p' } }
  const first = await sandboxConfig.claim('key:1', 60_000, () => work)
  await expect(sandboxConfig.claim('key:2', 60_000, () => work)).rejects.toMatchObject({ code: 'conflict' })
  expect((await sandboxConfig.get()).work).toMatchObject({
    kind: 'making',
    plan: { pool_name: 'p' },
    held: true,
  })

  await sandboxConfig.renew(first!.lease, 'pool', 0)
  const second = await sandboxConfig.claim('key:2', 60_000, (now) => {
    expect(now.work).toMatchObject({ ...work, step: 'pool', held: false })
    return work
  })
  await expect(sandboxConfig.renew(first!.lease, 'roles', 1000)).rejects.toMatchObject({ code: 'fenced' })
  await expect(sandboxConfig.finish(first!.lease, 'key:1', {})).rejects.toMatchObject({ code: 'fenced' })
  await sandboxConfig.finish(second!.lease, 'key:2', { pool_name: 'p', pool_id: '/id' })
  expect(await sandboxConfig.get()).toMatchObject({ work: null, version: 3, settings: { pool_name: 'p' } })
  const events = await sandboxConfig.events({ limit: 2 })
  expect(events.map(({ actor, event_type }) => [actor, event_type])).toEqual([
    ['key:2', 'made'],
    ['key:1', 'making'],
  ])
})

test('lists an orphan once, with its latest reason, until it is resolved', async () => {
  await sandboxConfig.addOrphan('/pool', 'first')
  await sandboxConfig.addOrphan('/pool', 'second')
  expect(await sandboxConfig.orphans()).toMatchObject([{ resource_id: '/pool', reason: 'second' }])
  await sandboxConfig.resolveOrphan('/pool')
  expect(await sandboxConfig.orphans()).toEqual([])
})

test('refuses to delete events, and records an event for a change by raw SQL', async () => {
  const owner = new pg.Client({ connectionString: database.url })
  await owner.connect()
  await owner.query("update sandbox_config set whitelist = '{notes}'")
  await expect(owner.query('delete from sandbox_config_events')).rejects.toThrow('append-only')
  await owner.end()
  expect(await sandboxConfig.events({ limit: 1 })).toMatchObject([{ source: 'sql', event_type: 'changed' }])
})
