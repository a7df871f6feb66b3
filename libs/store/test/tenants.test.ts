import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { defaultCaps, defaultPolicy, type PolicyPatch } from '../src/index.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { sampleAttempt } from './sample-attempt.ts'

let t: TestStore

beforeAll(async () => {
  t = await openTestStore()
})
afterAll(() => t.close())

/** Events of a tenant, oldest first. */
const history = async (tenantId: string): Promise<unknown[][]> =>
  (await t.store.tenants.events(tenantId))
    .toReversed()
    .map((event) => [event.event_type, event.before, event.after, event.actor, event.source])

describe('tenants', () => {
  it('are created with the defaults, once', async () => {
    const tenant = await t.store.tenants.create({ tenant_id: 'fresh' }, 'ops')
    expect(tenant).toEqual({ policy: defaultPolicy('fresh'), caps: defaultCaps() })
    expect(await t.store.tenants.get('fresh')).toEqual(tenant)
    expect(await t.store.tenants.get('unknown')).toBe(null)
    await expect(t.store.tenants.create({ tenant_id: 'fresh' }, 'ops')).rejects.toMatchObject({
      code: 'conflict',
    })
    expect(await history('fresh')).toMatchObject([['created', null, { sandbox_enabled: true }, 'ops', 'api']])
  })

  it('are listed by id in pages', async () => {
    for (const id of ['list-c', 'list-a', 'list-b']) await t.store.tenants.create({ tenant_id: id }, 'ops')
    const first = await t.store.tenants.list({ after: 'list', limit: 2 })
    expect(first.map((tenant) => tenant.policy.tenant_id)).toEqual(['list-a', 'list-b'])
    const next = await t.store.tenants.list({ after: 'list-b', limit: 1 })
    expect(next.map((tenant) => tenant.policy.tenant_id)).toEqual(['list-c'])
  })

  it.each(['', '-a', 'a/b', '../a', 'a b', 'a\0b', 'x'.repeat(129)])(
    'refuse the id %j',
    async (tenant_id) => {
      await expect(t.store.tenants.create({ tenant_id }, 'ops')).rejects.toMatchObject({
        code: 'invalid_request',
      })
    },
  )

  it('record one event per changed part of the policy, and none for unchanged parts', async () => {
    await t.store.tenants.create({ tenant_id: 'changing' }, 'ops')
    const after = await t.store.tenants.setPolicy(
      'changing',
      { retention_days: 7, min_isolation: 'gvisor', sandbox_enabled: true },
      'ann',
    )
    expect(after.policy).toMatchObject({ retention_days: 7, min_isolation: 'gvisor' })
    await t.store.tenants.setPolicy('changing', { retention_days: 7 }, 'ann')
    await t.store.tenants.setPolicy('changing', {}, 'ann')
    await t.store.tenants.setCaps(
      'changing',
      { tenant_daily: 0, agents: { scout: 5 } },
      'reconciler',
      'reconciler',
    )
    await t.store.tenants.setCaps('changing', { tenant_daily: 0 }, 'ann')
    expect((await history('changing')).slice(1)).toMatchObject([
      ['min_isolation', 'jail', 'gvisor', 'ann', 'api'],
      ['retention_days', 30, 7, 'ann', 'api'],
      [
        'caps',
        { tenant_daily: null, agents: {} },
        { tenant_daily: 0, agents: { scout: 5 } },
        'reconciler',
        'reconciler',
      ],
    ])
  })

  it('lose their sandbox when they leave the standard tier, and get it back in a second step', async () => {
    await t.store.tenants.create({ tenant_id: 'leaving' }, 'ops')
    const left = await t.store.tenants.setPolicy('leaving', { compliance_tier: 'hipaa' }, 'ann')
    expect(left.policy).toMatchObject({ compliance_tier: 'hipaa', sandbox_enabled: false })
    expect((await history('leaving')).slice(1)).toEqual([
      ['compliance_tier', 'standard', 'hipaa', 'ann', 'api'],
      ['sandbox_enabled', true, false, 'ann', 'api'],
    ])
    const on = await t.store.tenants.setPolicy('leaving', { sandbox_enabled: true }, 'ann')
    expect(on.policy).toMatchObject({ compliance_tier: 'hipaa', sandbox_enabled: true })
    const back = await t.store.tenants.setPolicy('leaving', { compliance_tier: 'standard' }, 'ann')
    expect(back.policy).toMatchObject({ compliance_tier: 'standard', sandbox_enabled: true })
    await expect(
      t.store.tenants.setPolicy('leaving', { sandbox_enabled: true, compliance_tier: 'regulated' }, 'ann'),
    ).rejects.toMatchObject({ code: 'conflict' })
    expect(await history('leaving')).toHaveLength(5)
    const born = (policy: PolicyPatch) =>
      t.store.tenants.create({ tenant_id: `born-${Object.keys(policy).length}`, policy }, 'ops')
    expect((await born({ compliance_tier: 'hipaa' })).policy.sandbox_enabled).toBe(false)
    expect((await born({ compliance_tier: 'hipaa', sandbox_enabled: true })).policy.sandbox_enabled).toBe(
      true,
    )
  })

  it('keep rules that a patch omits: network, packages, commands and encryption', async () => {
    const rules = {
      network: { allow: ['pypi.org:443', '*.example.com'] },
      packages: { pypi: ['requests', 'numpy==2.*'], npm: ['@types/*'] },
      commands: { allow: ['git status', 'ls'], block: ['rm'] },
      encrypt_outputs: true,
    }
    await t.store.tenants.create({ tenant_id: 'ruled', policy: rules }, 'ops')
    expect((await t.store.tenants.get('ruled'))?.policy).toMatchObject(rules)
    await t.store.tenants.setPolicy('ruled', { retention_days: 5 }, 'ann')
    expect((await t.store.tenants.get('ruled'))?.policy).toMatchObject({ ...rules, retention_days: 5 })
    await t.store.tenants.setPolicy(
      'ruled',
      { network: 'none', commands: { allow: null, block: ['rm'] }, encrypt_outputs: false },
      'ann',
    )
    expect((await history('ruled')).slice(1)).toEqual([
      ['retention_days', 30, 5, 'ann', 'api'],
      ['network', rules.network, 'none', 'ann', 'api'],
      ['commands', rules.commands, { allow: null, block: ['rm'] }, 'ann', 'api'],
      ['encrypt_outputs', true, false, 'ann', 'api'],
    ])
  })

  it('record an event for each changed artifact limit, and for sessions of runs', async () => {
    await t.store.tenants.create({ tenant_id: 'limited' }, 'ops')
    const patch = {
      max_artifact_count: 300,
      max_artifact_bytes: 9_000_000,
      run_sessions: true,
      keep_program: 'errors',
      allow_emulation: true,
    } as const
    await t.store.tenants.setPolicy('limited', patch, 'ann')
    await t.store.tenants.setPolicy('limited', { retention_days: 30 }, 'ann')
    expect((await t.store.tenants.get('limited'))?.policy).toMatchObject(patch)
    expect((await history('limited')).slice(1)).toEqual([
      ['max_artifact_bytes', 8_388_608, 9_000_000, 'ann', 'api'],
      ['max_artifact_count', 256, 300, 'ann', 'api'],
      ['run_sessions', false, true, 'ann', 'api'],
      ['keep_program', 'never', 'errors', 'ann', 'api'],
      ['allow_emulation', false, true, 'ann', 'api'],
    ])
  })

  it('from before these rules existed have the defaults', async () => {
    await t.owner(`insert into tenants (tenant_id) values ('older')`)
    expect((await t.store.tenants.get('older'))?.policy).toEqual(defaultPolicy('older'))
  })

  it('are audited when their policy is changed with SQL', async () => {
    await t.store.tenants.create({ tenant_id: 'raw' }, 'ops')
    await t.owner(`update tenants set weight = 3 where tenant_id = 'raw'`)
    await t.owner(`update tenants set weight = 3 where tenant_id = 'raw'`)
    await t.owner(`update tenants set compliance_tier = 'regulated' where tenant_id = 'raw'`)
    await expect(
      t.owner(`update tenants set network = '{"deny": []}' where tenant_id = 'raw'`),
    ).rejects.toMatchObject({ code: '23514' })
    await t.owner(`delete from tenants where tenant_id = 'raw'`)
    expect((await history('raw')).slice(1)).toMatchObject([
      ['caps', { weight: 1 }, { weight: 3 }, 'postgres', 'sql'],
      ['compliance_tier', 'standard', 'regulated', 'postgres', 'sql'],
      ['sandbox_enabled', true, false, 'postgres', 'sql'],
      ['deleted', { compliance_tier: 'regulated' }, null, 'postgres', 'sql'],
    ])
  })

  it('can be read by a version that does not know every column, as during an upgrade', async () => {
    const ahead = await openTestStore()
    try {
      await ahead.owner('alter table tenants add column of_a_later_version integer default 1')
      await ahead.owner('alter table sandbox_invocations add column of_a_later_version integer default 1')
      await ahead.store.tenants.create({ tenant_id: 'early' }, 'ops')
      await ahead.store.tenants.setCaps('early', { burst: 7 }, 'ops')
      expect((await ahead.store.tenants.get('early'))?.caps.burst).toBe(7)
      const record = sampleAttempt({ tenant: 'early' })
      await ahead.store.record(record)
      expect(await ahead.store.findAttempt(record.result.execution_id, 1)).toMatchObject({
        audit: record.audit,
      })
    } finally {
      await ahead.close()
    }
  })

  it('are audited when caps of CPU and cost, or a template, are changed with SQL', async () => {
    await t.store.tenants.create({ tenant_id: 'raw-caps' }, 'ops')
    await t.owner(`update tenants set tenant_daily_cost = 5 where tenant_id = 'raw-caps'`)
    await t.owner(`insert into templates (tenant_id, template_id, sandbox_environment, updated_by)
      values ('raw-caps', 't1', 'default-public', 'somebody')`)
    await t.owner(`update templates set network = '"none"' where tenant_id = 'raw-caps'`)
    await t.owner(`update templates set updated_at = now() where tenant_id = 'raw-caps'`)
    await t.store.templates.put({ tenant_id: 'raw-caps', template_id: 't1', sandbox: null }, 'ann')
    await t.owner(`delete from templates where tenant_id = 'raw-caps'`)
    expect((await history('raw-caps')).slice(1)).toMatchObject([
      ['caps', { tenant_daily_cost: null }, { tenant_daily_cost: 5 }, 'postgres', 'sql'],
      ['template', null, { template_id: 't1', environment: 'default-public' }, 'postgres', 'sql'],
      ['template', { network: null }, { network: 'none' }, 'postgres', 'sql'],
      ['template', { network: 'none' }, { environment: null, network: null }, 'ann', 'api'],
      ['template', { template_id: 't1' }, null, 'postgres', 'sql'],
    ])
    await expect(
      t.owner(`update tenants set tenant_daily_cpu_seconds = -1 where tenant_id = 'raw-caps'`),
    ).rejects.toMatchObject({ code: '23514' })
  })

  it('do not show the values to redact in their events', async () => {
    await t.store.tenants.create(
      { tenant_id: 'secretive', policy: { redact: ['correct horse battery'] } },
      'ops',
    )
    await t.store.tenants.setPolicy('secretive', { redact: ['another secret value'] }, 'ops')
    const events = JSON.stringify(await t.store.tenants.events('secretive'))
    expect(events).not.toMatch(/secret value|horse/)
    expect((await history('secretive')).slice(1)).toEqual([
      ['redact', { count: 1 }, { count: 1 }, 'ops', 'api'],
    ])
  })

  it('keep all of many concurrent changes', async () => {
    await t.store.tenants.create({ tenant_id: 'busy' }, 'ops')
    await Promise.all([
      ...[11, 12, 13, 14].map((n) => t.store.tenants.setPolicy('busy', { retention_days: n }, 'ann')),
      ...[21, 22, 23, 24].map((n) => t.store.tenants.setCaps('busy', { burst: n }, 'bob')),
    ])
    expect(await history('busy')).toHaveLength(9)
    const now = await t.store.tenants.get('busy')
    expect([11, 12, 13, 14]).toContain(now?.policy.retention_days)
    expect([21, 22, 23, 24]).toContain(now?.caps.burst)
  })

  it('refuse invalid values, and changes of unknown tenants', async () => {
    await t.store.tenants.create({ tenant_id: 'strict' }, 'ops')
    const { tenants } = t.store
    await expect(tenants.setPolicy('strict', { retention_days: 181 }, 'ann')).rejects.toMatchObject({
      code: 'invalid_request',
    })
    await expect(
      tenants.setPolicy('strict', { redact: ['long enough \0 but NUL'] }, 'ann'),
    ).rejects.toMatchObject({
      code: 'invalid_request',
    })
    await expect(tenants.setCaps('strict', { tenant_daily: -1 }, 'ann')).rejects.toMatchObject({
      code: 'invalid_request',
    })
    await expect(tenants.setCaps('nobody', { burst: 2 }, 'ann')).rejects.toMatchObject({ code: 'not_found' })
  })
})

describe('templates', () => {
  it('are created, replaced, found and listed per tenant', async () => {
    await t.store.tenants.create({ tenant_id: 'with-templates' }, 'ops')
    const on = {
      tenant_id: 'with-templates',
      template_id: 'analyst',
      sandbox: { environment: 'internal-only' as const },
    }
    const off = { ...on, sandbox: null }
    await t.store.templates.put(on, 'ann')
    expect(await t.store.templates.get('with-templates', 'analyst')).toEqual(on)
    const strict = {
      ...on,
      sandbox: {
        ...on.sandbox,
        network: 'none' as const,
        min_isolation: 'gvisor' as const,
        retention_days: 7,
        encrypt_outputs: true,
      },
    }
    await t.store.templates.put(strict, 'ann')
    expect(await t.store.templates.get('with-templates', 'analyst')).toEqual(strict)
    const allowing = {
      ...on,
      sandbox: { ...on.sandbox, network: { allow: ['a.example'] }, encrypt_outputs: false },
    }
    await t.store.templates.put(allowing, 'ann')
    expect(await t.store.templates.get('with-templates', 'analyst')).toEqual(allowing)
    await t.store.templates.put(off, 'ann')
    expect(await t.store.templates.list('with-templates')).toEqual([off])
    expect(await t.store.templates.get('fresh', 'analyst')).toBe(null)
    await expect(t.store.templates.put({ ...on, tenant_id: 'nobody' }, 'ann')).rejects.toMatchObject({
      code: 'not_found',
    })
  })
})

describe('API keys', () => {
  it('are shown once, stored hashed, and verified with their scope', async () => {
    await t.store.tenants.create({ tenant_id: 'keyed' }, 'ops')
    const admin = await t.store.keys.create('admin', 'first')
    const scoped = await t.store.keys.create({ tenant_id: 'keyed' }, 'second')
    expect(admin.key).toMatch(/^cfd_[0-9a-f]{40}$/)
    expect(await t.store.keys.verify(admin.key)).toEqual({
      id: admin.id,
      scope: 'admin',
      template_id: null,
      read_only: false,
    })
    expect(await t.store.keys.verify(scoped.key)).toEqual({
      id: scoped.id,
      scope: { tenant_id: 'keyed' },
      template_id: null,
      read_only: false,
    })
    const { rows } = await t.owner('select row_to_json(k)::text as row from api_keys k')
    expect(JSON.stringify(rows)).not.toContain(scoped.key.slice(4))
    const listed = await t.store.keys.list('keyed')
    expect(listed).toMatchObject([{ id: scoped.id, label: 'second', revoked_at: null }])
    expect(listed[0]?.last_used_at).not.toBe(null)
    expect(await t.store.keys.list(null)).toHaveLength(2)
  })

  it('are refused when revoked, unknown or malformed', async () => {
    const { id, key } = await t.store.keys.create('admin', 'short-lived')
    expect(await t.store.keys.revoke(id)).toBe(true)
    expect(await t.store.keys.revoke(id)).toBe(false)
    expect(await t.store.keys.revoke('x')).toBe(false)
    for (const bad of [key, `cfd_${'0'.repeat(40)}`, key.toUpperCase(), `${key}0`, '', `' or 1=1`])
      expect(await t.store.keys.verify(bad)).toBe(null)
    await expect(t.store.keys.create({ tenant_id: 'nobody' }, 'x')).rejects.toMatchObject({
      code: 'not_found',
    })
  })
})
