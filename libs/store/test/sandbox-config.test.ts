/** The sandbox configuration: versions, events, and work that one process at a time does. */
import { CofferdamError } from '@cofferdam/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestStore, type TestStore } from './open-test-store.ts'

let t: TestStore
beforeAll(async () => {
  t = await openTestStore()
})
afterAll(() => t.close())

test('the defaults are the seed’s: off, synchronised, 17 entries', async () => {
  const { settings, version, work } = await t.store.sandboxConfig.get()
  expect(settings).toMatchObject({
    enabled: false,
    sync_data: true,
    session_pool_endpoint: '',
    pool_name: '',
  })
  expect(settings.whitelist).toHaveLength(17)
  expect([version, work]).toEqual([1, null])
})

test('a change is whole, versioned and written down with its author', async () => {
  const { sandboxConfig } = t.store
  const changed = await sandboxConfig.change('key:1', 1, (now) => ({ ...now, sync_data: false }))
  expect(changed).toMatchObject({ version: 2, settings: { sync_data: false } })
  await expect(sandboxConfig.change('key:1', 1, (now) => now)).rejects.toMatchObject({ code: 'conflict' })
  await expect(
    sandboxConfig.change('key:1', null, () => {
      throw new CofferdamError('invalid_request', 'no')
    }),
  ).rejects.toThrow('no')
  // What changes nothing is no version and no event.
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

test('work has one holder, whose lease may be taken over when it has run out', async () => {
  const { sandboxConfig } = t.store
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

test('an orphan is named once, with its last reason, until it is resolved', async () => {
  const { sandboxConfig } = t.store
  await sandboxConfig.addOrphan('/pool', 'first')
  await sandboxConfig.addOrphan('/pool', 'second')
  expect(await sandboxConfig.orphans()).toMatchObject([{ resource_id: '/pool', reason: 'second' }])
  await sandboxConfig.resolveOrphan('/pool')
  expect(await sandboxConfig.orphans()).toEqual([])
})

test('events cannot be changed, and raw SQL leaves one of its own', async () => {
  await t.owner("update sandbox_config set whitelist = '{notes}'")
  await expect(t.owner('delete from sandbox_config_events')).rejects.toThrow('append-only')
  expect(await t.store.sandboxConfig.events({ limit: 1 })).toMatchObject([
    { source: 'sql', event_type: 'changed' },
  ])
})
