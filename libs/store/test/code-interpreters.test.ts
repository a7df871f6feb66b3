import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestStore, type TestStore } from './open-test-store.ts'

let t: TestStore
beforeAll(async () => {
  t = await openTestStore()
  for (const tenant of ['acme', 'globex', 'initech'])
    await t.store.tenants.create({ tenant_id: tenant }, 'ops')
})
afterAll(() => t.close())

const ID = 'cofferdam_acme_0123456789abcdef_pub-AbCdEf0123'
const OTHER = 'cofferdam_acme_0123456789abcdef_pub-ZyXwVu9876'

describe('code interpreters', () => {
  it('are requested, provisioned, forgotten and provisioned again under a new generation', async () => {
    const { codeInterpreters: rows } = t.store
    await rows.request('acme', ['default-public', 'internal-only'], 'ann')
    await rows.request('acme', ['default-public'], 'ann')
    const [row, inner] = await rows.list({ tenantId: 'acme' })
    expect(inner).toMatchObject({ environment: 'internal-only', interpreter_id: null })
    if (row === undefined) throw new Error('no row')
    expect(row).toMatchObject({ environment: 'default-public', generation: 1, sandbox_enabled: true })
    expect(await rows.find('acme', 'default-public')).toBeNull()

    expect(await rows.provisioned(row, ID, 'ann')).toBe(true)
    expect(await rows.provisioned(row, ID, 'ann')).toBe(true)
    expect(await rows.provisioned(row, OTHER, 'ann')).toBe(false)
    expect(await rows.find('acme', 'default-public')).toBe(ID)
    expect([await rows.isNamed(ID), await rows.isNamed(OTHER)]).toEqual([true, false])

    expect(await rows.forget('acme', 'default-public', OTHER, 'worker')).toBe(false)
    expect(await rows.forget('acme', 'default-public', ID, 'worker')).toBe(true)
    // This interpreter was created for the row as it was before `forget`.
    expect(await rows.provisioned(row, ID, 'ann')).toBe(false)
    expect(await rows.list({ tenantId: 'acme' })).toMatchObject([
      { generation: 2, interpreter_id: null, provisioned_at: null },
      { generation: 1 },
    ])

    const { rows: events } = await t.owner(
      `select event_type, actor, source, before, after from code_interpreter_events
       where environment = 'default-public' order by id`,
    )
    expect(events).toEqual([
      { event_type: 'requested', actor: 'ann', source: 'reconciler', before: null, after: null },
      { event_type: 'provisioned', actor: 'ann', source: 'reconciler', before: null, after: ID },
      { event_type: 'forgotten', actor: 'worker', source: 'reconciler', before: ID, after: null },
    ])
    await expect(t.owner('delete from code_interpreter_events')).rejects.toThrow(/append-only/)
  })

  it('belong to one existing tenant each', async () => {
    const { codeInterpreters: rows } = t.store
    await expect(rows.request('nobody', ['internal-only'], 'ann')).rejects.toMatchObject({
      code: 'not_found',
    })
    const shared = 'cofferdam_shared_0123456789abcdef_int-AbCdEf0123'
    for (const tenant of ['globex', 'initech']) await rows.request(tenant, ['internal-only'], 'ann')
    const [first] = await rows.list({ tenantId: 'globex' })
    const [second] = await rows.list({ tenantId: 'initech' })
    if (first === undefined || second === undefined) throw new Error('no rows')
    expect(await rows.provisioned(first, shared, 'ann')).toBe(true)
    await expect(rows.provisioned(second, shared, 'ann')).rejects.toMatchObject({ code: 'conflict' })
    expect(await rows.find('initech', 'internal-only')).toBeNull()
    await expect(
      t.owner(`update code_interpreters set interpreter_id = 'a b', provisioned_at = now()`),
    ).rejects.toThrow(/check/)
  })

  it("of another tenant are invisible to the app's role, which cannot write any", async () => {
    const seen = await t.as('cofferdam_app', 'select distinct tenant_id from code_interpreters', 'globex')
    expect(seen.rows).toEqual([{ tenant_id: 'globex' }])
    for (const change of [
      `insert into code_interpreters (tenant_id, environment) values ('globex', 'default-public')`,
      `update code_interpreters set generation = 9`,
      `delete from code_interpreters`,
    ])
      await expect(t.as('cofferdam_app', change, 'globex')).rejects.toThrow(/permission denied/)
  })

  it('are listed page by page, and deleted with `remove`', async () => {
    const { codeInterpreters: rows } = t.store
    const all = await rows.list({})
    const behind = await rows.list({ after: { tenant_id: 'acme', environment: 'internal-only' } })
    expect(all.map(({ tenant_id: id }) => id)).toEqual(['acme', 'acme', 'globex', 'initech'])
    expect(behind).toEqual(all.slice(2))
    await rows.remove('acme', 'ann')
    expect(await rows.list({ tenantId: 'acme' })).toEqual([])
  })

  it('are changed by one process at a time', async () => {
    const { codeInterpreters: rows } = t.store
    const inside = Promise.withResolvers<void>()
    const done = Promise.withResolvers<string>()
    const first = rows.inTurn(() => {
      inside.resolve()
      return done.promise
    })
    await inside.promise
    expect(await rows.inTurn(() => Promise.resolve('second'))).toBeNull()
    done.resolve('first')
    expect(await first).toBe('first')
    await expect(rows.inTurn(() => Promise.reject(new Error('broke')))).rejects.toThrow('broke')
    expect(await rows.inTurn(() => Promise.resolve('third'))).toBe('third')
  })
})
