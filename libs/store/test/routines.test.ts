import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newExecutionId, newRoutineId, routineInputSchema } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createStore } from '../src/index.ts'
import { PATIENT_TIMEOUTS } from '../src/testing.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'

let t: TestStore
beforeAll(async () => {
  t = await openTestStore()
  for (const tenant of ['acme', 'globex']) await t.store.tenants.create({ tenant_id: tenant }, 'ops')
})
afterAll(() => t.close())

const input = (tenant = 'acme', extra: object = {}) =>
  routineInputSchema.parse({
    name: 'nightly',
    request: {
      tenant_id: tenant,
      agent_id: 'agent-1',
      template_id: 'clinic',
      program: { type: 'script', language: 'python', source: 'print("\u0000")' },
    },
    schedule: { every_ms: 60_000 },
    ...extra,
  })

describe('routines', () => {
  it('are stored as written, NUL included, and a change affects only the given fields', async () => {
    const made = await t.store.routines.create(input(), 'ann')
    expect(made).toMatchObject({ agent_id: 'agent-1', template_id: 'clinic', schedule: { every_ms: 60_000 } })
    expect(made.request).toEqual(input().request)
    const changed = await t.store.routines.change('acme', made.routine_id, { schedule: null }, 'bob')
    expect(changed).toMatchObject({ name: 'nightly', schedule: null, enabled: true })
    expect(await t.store.routines.get('acme', made.routine_id)).toEqual(changed)
  })

  it('record an event for each change with author and values, but without the program', async () => {
    const { routine_id: id } = await t.store.routines.create(input(), 'ann')
    await t.store.routines.change('acme', id, { enabled: false }, 'bob')
    await t.store.routines.change('acme', id, { enabled: false }, 'bob')
    await t.owner(`update routines set concurrency = 'allow' where routine_id = $1`, [id])
    await t.store.routines.remove('acme', id, 'cy')
    const { rows } = await t.owner(
      'select actor, source, event_type, before, after from routine_events where routine_id = $1 order by id',
      [id],
    )
    expect(rows.map((row) => [row['event_type'], row['source']])).toEqual([
      ['created', 'api'],
      ['changed', 'api'],
      ['changed', 'sql'],
      ['deleted', 'api'],
    ])
    expect(rows.map((row) => row['actor']).toSpliced(2, 1)).toEqual(['ann', 'bob', 'cy'])
    expect(rows[1]).toMatchObject({ before: { enabled: true }, after: { enabled: false } })
    expect(JSON.stringify(rows)).not.toContain('print')
    const text = JSON.stringify(input().request)
    expect(rows[0]).toMatchObject({
      after: { request_sha256: createHash('sha256').update(text).digest('hex') },
    })
    await expect(t.owner('delete from routine_events')).rejects.toThrow(/append-only/)
    await expect(t.owner('truncate routine_events')).rejects.toThrow(/append-only/)
  })

  it("of another tenant can be neither seen nor changed, even with SQL under the app's role", async () => {
    const { routine_id: id } = await t.store.routines.create(input('globex'), 'ann')
    expect(await t.store.routines.get('acme', id)).toBeNull()
    expect(await t.store.routines.change('acme', id, { enabled: false }, 'eve')).toBeNull()
    expect(await t.store.routines.remove('acme', id, 'eve')).toBe(false)
    expect(await t.store.routines.runs('acme', id, 10)).toEqual([])
    const seen = await t.as('cofferdam_app', 'select distinct tenant_id from routines', 'acme')
    expect(seen.rows).toEqual([{ tenant_id: 'acme' }])
    expect((await t.as('cofferdam_app', 'select * from routines')).rows).toEqual([])
    const stolen = `insert into routines (routine_id, tenant_id, agent_id, name, request)
      values ('${newRoutineId()}', 'globex', 'a', 'n', '{}')`
    await expect(t.as('cofferdam_app', stolen, 'acme')).rejects.toThrow(/row-level security/)
    await expect(
      t.as(
        'cofferdam_app',
        `insert into routine_events (tenant_id, routine_id, actor, event_type, source)
         values ('acme', 'x', 'x', 'created', 'api')`,
        'acme',
      ),
    ).rejects.toThrow(/permission denied/)
  })

  it('need an existing tenant, which can have a thousand at most', async () => {
    await expect(t.store.routines.create(input('nobody'), 'ann')).rejects.toMatchObject({ code: 'not_found' })
    await t.store.tenants.create({ tenant_id: 'many' }, 'ops')
    await t.owner(
      `insert into routines (routine_id, tenant_id, agent_id, name, request)
       select 'rtn_' || lpad(to_hex(n), 32, '0'), 'many', 'a', 'n', '{}' from generate_series(1, 1000) n`,
    )
    await expect(t.store.routines.create(input('many'), 'ann')).rejects.toMatchObject({ code: 'conflict' })
  })

  it('keep their newest 200 runs, and decide about each trigger once', async () => {
    const { routine_id: id } = await t.store.routines.create(input(), 'ann')
    let decided = 0
    const fire = (key: string) =>
      t.store.routines.inTurn(id, { key, scheduledAtMs: 1000 }, async () => {
        decided += 1
        return { outcome: 'enqueued', reason: null, execution_id: newExecutionId() }
      })
    const first = await fire('a')
    expect(await fire('a')).toEqual(first)
    expect(decided).toBe(1)
    for (let n = 0; n < 205; n += 1) await fire(`n-${n}`)
    expect(await t.store.routines.runs('acme', id, 500)).toHaveLength(200)
    expect(
      await t.store.routines.inTurn(newRoutineId(), { key: 'a', scheduledAtMs: null }, async () => {
        throw new Error('not asked')
      }),
    ).toBeNull()
  }, 180_000)
})

describe('callback secrets', () => {
  it('are stored encrypted if there is a key, and cannot be used by another tenant', async () => {
    const blobDir = mkdtempSync(join(tmpdir(), 'cofferdam-secrets-'))
    const store = await createStore({
      databaseUrl: t.url,
      blobDir,
      timeouts: PATIENT_TIMEOUTS,
      outputKeys: [{ id: 'k1', key: Buffer.alloc(32, 7) }],
    })
    try {
      const { secret } = await store.callbackSecrets.rotate('acme')
      const key = Buffer.from(secret.slice(6), 'base64')
      expect(await store.callbackSecrets.read('acme', Date.now())).toEqual([key])
      const { rows } = await t.owner(`select secret, sealed from callback_secrets where tenant_id = 'acme'`)
      expect(rows[0]).toMatchObject({ sealed: true })
      expect(Buffer.from(rows[0]?.['secret'] as Uint8Array).includes(key)).toBe(false)
      await t.owner(
        `insert into callback_secrets (tenant_id, secret, sealed)
         select 'globex', secret, sealed from callback_secrets where tenant_id = 'acme'`,
      )
      await expect(store.callbackSecrets.read('globex', Date.now())).rejects.toMatchObject({
        code: 'stored_data_damaged',
      })
      expect((await t.as('cofferdam_app', 'select * from callback_secrets', 'nobody')).rows).toEqual([])
    } finally {
      await store[Symbol.asyncDispose]()
      rmSync(blobDir, { recursive: true, force: true })
    }
  })
})
