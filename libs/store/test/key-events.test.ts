/** Read-only keys, and the events of keys, of callback secrets and of actions that change no row. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestStore, type TestStore } from './open-test-store.ts'

let t: TestStore
beforeAll(async () => {
  t = await openTestStore()
})
afterAll(() => t?.close())

/** Events of a tenant after its creation, oldest first. */
const history = async (tenantId: string): Promise<unknown[][]> =>
  (await t.store.tenants.events(tenantId))
    .toReversed()
    .slice(1)
    .map((event) => [event.event_type, event.before, event.after, event.actor, event.source, event.via])

const BY_PAGE = { actor: 'key:k_1', via: 'ui' } as const

describe('a read-only key', () => {
  it('is told apart when it is verified, found and listed', async () => {
    await t.store.tenants.create({ tenant_id: 'reads' }, 'ops')
    const reader = await t.store.keys.create({ tenant_id: 'reads' }, 'screen', { readOnly: true })
    const writer = await t.store.keys.create({ tenant_id: 'reads' }, 'agent')
    expect(await t.store.keys.verify(reader.key)).toMatchObject({ read_only: true })
    expect(await t.store.keys.verify(writer.key)).toMatchObject({ read_only: false })
    expect(await t.store.keys.find(reader.id)).toEqual({
      id: reader.id,
      scope: { tenant_id: 'reads' },
      template_id: null,
      read_only: true,
    })
    const listed = (await t.store.keys.list('reads')).map(({ id, read_only }) => [id, read_only])
    expect(listed.toSorted()).toEqual(
      [
        [reader.id, true],
        [writer.id, false],
      ].toSorted(),
    )
  })

  it('cannot become one that writes, not even by the app’s role', async () => {
    await t.store.tenants.create({ tenant_id: 'stays' }, 'ops')
    const { id } = await t.store.keys.create({ tenant_id: 'stays' }, 'screen', { readOnly: true })
    const update = t.as('cofferdam_app', `update api_keys set read_only = false where id = '${id}'`)
    await expect(update).rejects.toMatchObject({ code: '42501' })
  })

  it('is not found once it is revoked, nor by another text', async () => {
    const { id } = await t.store.keys.create('admin', 'short', { readOnly: true })
    await t.store.keys.revoke(id)
    for (const other of [id, 'x', "' or true --", '00000000-0000-0000-0000-000000000000'])
      expect(await t.store.keys.find(other)).toBe(null)
  })
})

it('one admin key that may change things stays, also when all are revoked at once', async () => {
  const made = Array.from({ length: 6 }, (_, n) => t.store.keys.create('admin', `operator ${n}`))
  await Promise.all([...made, t.store.keys.create('admin', 'screen', { readOnly: true })])
  const valid = async () => (await t.store.keys.admins()).filter((key) => key.revoked_at === null)
  const ended = await Promise.allSettled((await valid()).map(({ id }) => t.store.keys.revoke(id)))
  const refused = ended.filter((one) => one.status === 'rejected').map((one): unknown => one.reason)
  expect(refused).toEqual([expect.objectContaining({ code: 'conflict' })])
  const [last, ...others] = await valid()
  expect([last?.read_only, others]).toEqual([false, []])
  await t.store.keys.create('admin', 'next')
  expect(await t.store.keys.revoke(last?.id ?? '')).toBe(true)
})

describe('events', () => {
  it('say who made and revoked a key, and that it was on the dashboard', async () => {
    await t.store.tenants.create({ tenant_id: 'keyed' }, 'ops')
    const { id, key } = await t.store.keys.create({ tenant_id: 'keyed' }, 'CI', {
      readOnly: true,
      actor: BY_PAGE,
    })
    await t.store.keys.verify(key)
    await t.store.keys.revoke(id, 'key:k_2')
    await t.store.keys.revoke(id, 'key:k_3')
    const facts = { key_id: id, label: 'CI', template_id: null, read_only: true }
    expect(await history('keyed')).toEqual([
      ['key_created', null, facts, 'key:k_1', 'api', 'ui'],
      ['key_revoked', facts, null, 'key:k_2', 'api', null],
    ])
    expect(JSON.stringify(await history('keyed'))).not.toContain(key.slice(4))
  })

  it('of admin keys belong to no tenant, and stand among those of the tenants', async () => {
    await t.store.tenants.create({ tenant_id: 'beside' }, 'ops')
    const { id, key } = await t.store.keys.create('admin', 'laptop', { readOnly: true, actor: BY_PAGE })
    await t.store.keys.revoke(id, 'key:k_2')
    const facts = { key_id: id, label: 'laptop', read_only: true }
    const of = { source: 'api', tenant_id: null }
    const all = await t.store.tenants.allEvents({ limit: 3 })
    expect(all).toMatchObject([
      { ...of, event_type: 'admin_key_revoked', before: facts, after: null, actor: 'key:k_2', via: null },
      { ...of, event_type: 'admin_key_created', before: null, after: facts, actor: 'key:k_1', via: 'ui' },
      { event_type: 'created', tenant_id: 'beside', actor: 'ops' },
    ])
    expect(JSON.stringify(all)).not.toContain(key.slice(4))
    const older = await t.store.tenants.allEvents({ before: all[0]!.id, types: ['admin_key_created'] })
    expect(older[0]).toMatchObject({ id: all[1]!.id })
    expect(await t.store.tenants.events('beside')).toHaveLength(1)
    const [first] = await t.store.keys.admins()
    expect(first?.revoked_at === null || first?.id === id).toBe(true)
    await expect(
      t.as(
        'cofferdam_app',
        `insert into tenant_policy_events (actor, event_type, source) values ('x', 'admin_x', 'sql')`,
      ),
    ).rejects.toMatchObject({ code: '42501' })
  })

  it('say who rotated and deleted a callback secret, without the secret', async () => {
    await t.store.tenants.create({ tenant_id: 'signed' }, 'ops')
    const first = await t.store.callbackSecrets.rotate('signed', BY_PAGE)
    const second = await t.store.callbackSecrets.rotate('signed', 'key:k_2')
    await t.store.callbackSecrets.remove('signed', 'key:k_3')
    await t.store.callbackSecrets.remove('signed', 'key:k_4')
    expect((await history('signed')).map(([type, , , actor, , via]) => [type, actor, via])).toEqual([
      ['callback_secret_rotated', 'key:k_1', 'ui'],
      ['callback_secret_rotated', 'key:k_2', null],
      ['callback_secret_deleted', 'key:k_3', null],
    ])
    const text = JSON.stringify(await history('signed'))
    for (const { secret } of [first, second]) expect(text).not.toContain(secret.slice(6, 20))
  })

  it('of one kind are found behind any number of others', async () => {
    await t.store.tenants.create({ tenant_id: 'busy' }, 'ops')
    await t.store.tenants.setCaps('busy', { tenant_daily: 0 }, 'ann')
    for (let n = 0; n < 20; n += 1)
      await t.store.tenants.recordAction('busy', 'execution_cancelled', { n }, 'ops')
    const found = await t.store.tenants.events('busy', { limit: 10, types: ['caps'] })
    expect(found.map(({ event_type, actor }) => [event_type, actor])).toEqual([['caps', 'ann']])
    const [first] = found
    expect(await t.store.tenants.events('busy', { types: ['caps'], before: first?.id ?? 0 })).toEqual([])
  })

  it('have what was done, of the known kinds only', async () => {
    await t.store.tenants.create({ tenant_id: 'acts' }, 'ops')
    const details = { backend: 'docker', key: '"; drop table tenants; --' }
    await t.store.tenants.recordAction('acts', 'session_ended', details, BY_PAGE)
    await expect(
      t.store.tenants.recordAction('acts', 'caps' as 'session_ended', {}, 'mallory'),
    ).rejects.toThrow()
    expect(await history('acts')).toEqual([['session_ended', null, details, 'key:k_1', 'api', 'ui']])
  })

  it('of a policy carry the dashboard too, and the next change does not', async () => {
    await t.store.tenants.create({ tenant_id: 'ruled' }, 'ops')
    await t.store.tenants.setPolicy('ruled', { retention_days: 7 }, BY_PAGE)
    await t.store.tenants.setPolicy('ruled', { retention_days: 8 }, 'ops')
    await t.store.templates.put({ tenant_id: 'ruled', template_id: 'strict', sandbox: null }, BY_PAGE)
    expect((await history('ruled')).map(([type, , , actor, , via]) => [type, actor, via])).toEqual([
      ['retention_days', 'key:k_1', 'ui'],
      ['retention_days', 'ops', null],
      ['template', 'key:k_1', 'ui'],
    ])
  })
})
