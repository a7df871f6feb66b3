import { idTimeMs, newExecutionId } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { sampleAttempt } from './sample-attempt.ts'

let t: TestStore
let partition = ''

beforeAll(async () => {
  t = await openTestStore()
  await t.store.record(sampleAttempt({ tenant: 'acme' }))
  await t.store.record(sampleAttempt({ tenant: 'globex' }))
  const { rows } = await t.owner('select tableoid::regclass::text as name from sandbox_invocations limit 1')
  partition = String(rows[0]?.['name'])
})
afterAll(() => t.close())

const changesOf = (table: string): string[] => [
  `update ${table} set exit_status = 'error'`,
  `delete from ${table}`,
  `truncate ${table}`,
]
const REFUSED_BY_TRIGGER = { code: '23001' }
const NO_RIGHT = { code: '42501' }

describe('sandbox_invocations is append-only', () => {
  const changes = changesOf

  it('for the app, on the parent and on a partition', async () => {
    expect(partition).toMatch(/^sandbox_invocations_\d{8}$/)
    for (const role of ['cofferdam_app', 'cofferdam_all_tenants'])
      for (const table of ['sandbox_invocations', partition])
        for (const change of changes(table))
          await expect(t.as(role, change), change).rejects.toMatchObject(NO_RIGHT)
  })

  it('for the owner too, on the parent and on a partition', async () => {
    for (const table of ['sandbox_invocations', partition])
      for (const change of changes(table))
        await expect(t.owner(change), change).rejects.toMatchObject(REFUSED_BY_TRIGGER)
  })

  it('also with replication triggers off, and for the cascade of a truncate', async () => {
    for (const change of changes(partition))
      await expect(
        t.owner(`set session_replication_role = replica; ${change}`),
        change,
      ).rejects.toMatchObject(REFUSED_BY_TRIGGER)
    await expect(t.owner('truncate sandbox_invocations cascade')).rejects.toMatchObject(REFUSED_BY_TRIGGER)
  })

  it('like results and the register of attempts, for the owner too', async () => {
    const { rows } = await t.owner('select tableoid::regclass::text as name from results limit 1')
    const results = String(rows[0]?.['name'])
    expect(results).toMatch(/^results_\d{8}$/)
    for (const change of [
      `update results set result = '{}'`,
      `delete from ${results}`,
      `truncate results`,
      `truncate ${results}`,
      `update attempts set recorded_xid = '0'`,
      `delete from attempts`,
      `truncate attempts`,
    ])
      for (const mode of ['origin', 'replica'])
        await expect(
          t.owner(`set session_replication_role = ${mode}; ${change}`),
          change,
        ).rejects.toMatchObject(REFUSED_BY_TRIGGER)
  })

  it('also for repeated inserts, merges, and moves to another partition', async () => {
    const changes = [
      `insert into sandbox_invocations select * from sandbox_invocations
         on conflict (expires_on, execution_id, attempt) do update set exit_status = 'error'`,
      `merge into sandbox_invocations s using attempts a on s.execution_id = a.execution_id
         when matched then update set exit_status = 'error'`,
      'merge into sandbox_invocations s using attempts a on s.execution_id = a.execution_id when matched ' +
        'then delete',
      `update sandbox_invocations set retention_days = 31, expires_on = expires_on + 1`,
      'with gone as (delete from sandbox_invocations returning *) insert into sandbox_invocations select ' +
        '* from gone',
    ]
    for (const change of changes) {
      await expect(t.owner(change), change).rejects.toMatchObject(REFUSED_BY_TRIGGER)
      await expect(t.as('cofferdam_all_tenants', change), change).rejects.toMatchObject(NO_RIGHT)
    }
  })

  it('and no role can insert with its own transaction number or past row-level security', async () => {
    for (const role of ['cofferdam_app', 'cofferdam_all_tenants', 'cofferdam_sweeper'])
      for (const change of [
        `insert into attempts (execution_id, attempt, expires_on, recorded_xid)
           select execution_id, 9, expires_on, '7' from attempts`,
        `copy attempts from stdin`,
        `copy ${partition} from stdin`,
        `copy ${partition} to stdout`,
        `insert into ${partition} select * from ${partition}`,
        `alter table sandbox_invocations disable trigger all`,
        `alter table ${partition} no inherit sandbox_invocations`,
        `select * from audit_faults() where pg_sleep(0) is null; set session_replication_role = replica`,
      ])
        await expect(t.as(role, change), `${role}: ${change}`).rejects.toMatchObject(NO_RIGHT)
  })

  it('for the app in every other way', async () => {
    for (const change of [
      `drop table ${partition}`,
      `alter table sandbox_invocations disable trigger append_only`,
      `alter table sandbox_invocations detach partition ${partition}`,
      `alter table sandbox_invocations disable row level security`,
      `create or replace function refuse_change() returns trigger language sql as 'select null'`,
      `delete from attempts`,
      `update results set result = '{}'`,
      `delete from tenant_policy_events`,
      `insert into tenant_policy_events (tenant_id, actor, event_type, source)
       values ('a', 'b', 'caps', 'api')`,
      `update api_keys set tenant_id = null`,
    ])
      await expect(t.as('cofferdam_app', change), change).rejects.toMatchObject(NO_RIGHT)
  })

  it('and its rows are all still there', async () => {
    const { rows } = await t.owner(
      'select count(*) as n, min(exit_status) as status from sandbox_invocations',
    )
    expect(rows).toEqual([{ n: '2', status: 'ok' }])
  })
})

describe("the sweeper's role", () => {
  it('drops expired partitions, and can neither read nor write an audit row', async () => {
    const as = (text: string) => t.as('cofferdam_sweeper', text)
    for (const refused of [
      'select from sandbox_invocations',
      'select from results',
      `select from ${partition}`,
      `select ensure_partition(current_date)`,
      'insert into attempts select * from attempts',
      ...changesOf('sandbox_invocations'),
    ])
      await expect(as(refused), refused).rejects.toMatchObject(NO_RIGHT)
    expect((await as('select * from drop_expired(current_date)')).rows).toEqual([])
  })

  it('is the only one that may drop', async () => {
    for (const role of ['cofferdam_app', 'cofferdam_all_tenants'])
      await expect(t.as(role, 'select drop_expired(current_date)')).rejects.toMatchObject(NO_RIGHT)
  })
})

describe('row-level security', () => {
  const tenants = async (table: string, role: string, tenantId?: string): Promise<unknown[]> => {
    const { rows } = await t.as(role, `select tenant_id from ${table} order by 1`, tenantId)
    return rows.map((row) => row['tenant_id'])
  }

  it.each(['sandbox_invocations', 'results'])(
    'of %s shows a reader only its own tenant, and nothing without a tenant',
    async (table) => {
      expect(await tenants(table, 'cofferdam_app')).toEqual([])
      expect(await tenants(table, 'cofferdam_app', '')).toEqual([])
      expect(await tenants(table, 'cofferdam_app', 'acme')).toEqual(['acme'])
      expect(await tenants(table, 'cofferdam_app', 'nobody')).toEqual([])
      expect(await tenants(table, 'cofferdam_all_tenants')).toEqual(['acme', 'globex'])
    },
  )

  it('cannot be bypassed through a partition', async () => {
    await expect(t.as('cofferdam_app', `select * from ${partition}`, 'acme')).rejects.toMatchObject(NO_RIGHT)
    await expect(t.as('cofferdam_all_tenants', `select * from ${partition}`)).rejects.toMatchObject(NO_RIGHT)
  })

  it("cannot be left by taking another role from the app's role", async () => {
    // This login user has only cofferdam_app and is no superuser. If a login user may take both roles, a
    // statement injected under the app's role can switch to the other role.
    await t.owner(`create role reader_${process.pid} login in role cofferdam_app`)
    try {
      await expect(
        t.owner(`set session authorization reader_${process.pid}; set role cofferdam_all_tenants`),
      ).rejects.toMatchObject(NO_RIGHT)
    } finally {
      await t.owner(`drop role reader_${process.pid}`)
    }
  })
})

describe('the CHECKs of sandbox_invocations', () => {
  const id = newExecutionId(Date.UTC(2026, 10, 20, 12))
  const good = {
    execution_id: id.slice(4),
    created_at: new Date(idTimeMs(id)).toISOString(),
    retention_days: 30,
    expires_on: '2026-12-20',
    exit_status: 'ok',
    ending: 'ok',
    invocation_source: 'queue',
    started_at: '2026-11-20T12:00:00Z',
    finished_at: '2026-11-20T12:00:01Z',
    quota_charged: false,
    executed_code_hash: 'a'.repeat(64),
  }
  const insert = async (changed: Partial<Record<keyof typeof good, unknown>>): Promise<unknown> => {
    const row: Record<string, unknown> = {
      ...good,
      attempt: 1,
      tenant_id: 'acme',
      agent_id: 'scout',
      environment_id: 'default-public',
      duration_ms: 1,
      queue_ms: 0,
      stdout_bytes: 0,
      stderr_bytes: 0,
      stdout_truncated: false,
      stderr_truncated: false,
      redaction_count: 0,
      outbound_hosts: '[]',
      ...changed,
    }
    const names = Object.keys(row)
    await t.owner(`select ensure_partition('${String(row['expires_on'])}')`)
    return await t.owner(
      `insert into sandbox_invocations (${names.join(', ')}) values (${names.map((_, i) => `$${i + 1}`).join(', ')})`,
      Object.values(row),
    )
  }

  it.each([
    ['a retention of 181 days', { retention_days: 181, expires_on: '2027-05-20' }],
    ['a retention of 0 days', { retention_days: 0, expires_on: '2026-11-20' }],
    ['a random UUID', { execution_id: '3f2b8c1e-9d4a-4b6f-8e21-0c5d7a9b1e34' }],
    ['an id of another moment', { execution_id: newExecutionId(Date.UTC(2026, 10, 21)).slice(4) }],
    ['an expiry day that the id and the retention do not give', { expires_on: '2026-12-21' }],
    ['an unknown exit status', { exit_status: 'fine' }],
    ['an unknown ending', { ending: 'fine' }],
    ['an unknown source', { invocation_source: 'sql' }],
    ['an end before the start', { finished_at: '2026-11-20T11:59:59Z' }],
    ['a charge without its time', { quota_charged: true }],
    ['an invalid hash', { executed_code_hash: 'A'.repeat(64) }],
    [
      'a start so early that it would be kept for more than 180 days',
      { retention_days: 180, expires_on: '2027-05-19', started_at: '2026-11-01T00:00:00Z' },
    ],
  ])('refuse %s', async (_what, changed) => {
    await expect(insert(changed)).rejects.toMatchObject({ code: '23514' })
  })

  it('accept the same row without the fault, once', async () => {
    await insert({})
    await expect(insert({})).rejects.toMatchObject({ code: '23505' })
  })
})
