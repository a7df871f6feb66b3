/** Provisioning with the account's double, the vendor's clients, and rows in a real Postgres. */
import { isCofferdamError } from '@cofferdam/contract'
import type { InterpreterRows } from '../src/provision/interpreter-rows.ts'
import { createStore, type Store } from '@cofferdam/store'
import { createTestDatabase, PATIENT_TIMEOUTS, type TestDatabase } from '@cofferdam/store/testing'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startAccountDouble, type AccountDouble } from '../double/control/control-plane.ts'
import { EXAMPLE_SECRETS } from '../double/agentcore-double.ts'
import {
  agentcoreProvisionConfigSchema,
  createAgentcoreProvisioner,
  type AgentcoreProvisioner,
} from '../src/provision/index.ts'

const HOUR_MS = 3_600_000
const BOTH = ['default-public', 'internal-only'] as const

let database: TestDatabase
let store: Store
let blobDir: string
let double: AccountDouble
const opened: AgentcoreProvisioner[] = []
beforeAll(async () => {
  database = await createTestDatabase()
  blobDir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
  const { accessKeyId, secretAccessKey } = EXAMPLE_SECRETS
  writeFileSync(
    join(blobDir, 'credentials'),
    `[default]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n`,
  )
  store = await createStore({ databaseUrl: database.url, blobDir, timeouts: PATIENT_TIMEOUTS })
})
afterAll(async () => {
  await store[Symbol.asyncDispose]()
  await database.drop()
  rmSync(blobDir, { recursive: true, force: true })
})
beforeEach(async () => {
  double = await startAccountDouble()
  double.knobs.changesPerSecond = 1000
})
afterEach(async () => {
  for (const one of opened.splice(0)) await one[Symbol.asyncDispose]()
  for (const row of await store.codeInterpreters.list({}))
    await store.codeInterpreters.remove(row.tenant_id, 'test')
  await double[Symbol.asyncDispose]()
})

function provisioner(
  settings: object = {},
  rows: InterpreterRows = store.codeInterpreters,
): AgentcoreProvisioner {
  const config = agentcoreProvisionConfigSchema.parse({
    region: double.region,
    account_id: double.account,
    control_url: double.origin,
    credentials_file: join(blobDir, 'credentials'),
    iam_url: double.origin,
    poll_ms: 5,
    ready_timeout_ms: 5000,
    ...settings,
  })
  const made = createAgentcoreProvisioner(config, { rows, actor: 'test' })
  opened.push(made)
  return made
}

let tenants = 0
async function newTenant(policy: object = {}): Promise<string> {
  const tenant_id = `tenant-${(tenants += 1)}`
  await store.tenants.create({ tenant_id, policy }, 'test')
  return tenant_id
}
const wanting = (tenantId: string) => ({ request: [{ tenantId, environments: BOTH }] })
const find = (tenantId: string) =>
  Promise.all(BOTH.map((environment) => store.codeInterpreters.find(tenantId, environment)))

describe('a tenant at provisioning', () => {
  it('gets one interpreter per environment and no role, however often it is requested', async () => {
    const tenant = await newTenant()
    const first = await provisioner().reconcile(wanting(tenant))
    expect(first?.interpreters).toMatchObject([
      { tenant_id: tenant, environment: 'default-public', state: 'ready', action: 'created', detail: null },
      { tenant_id: tenant, environment: 'internal-only', state: 'ready', action: 'created', detail: null },
    ])
    const ids = await find(tenant)
    expect(ids.toSorted()).toEqual(double.stock.ready().toSorted())
    expect(
      ids.map((id) => (double.stock.get(id ?? '') as { networkConfiguration: unknown }).networkConfiguration),
    ).toEqual([{ networkMode: 'PUBLIC' }, { networkMode: 'SANDBOX' }])
    const again = await provisioner().reconcile(wanting(tenant))
    expect(again?.interpreters.map(({ action }) => action)).toEqual(['kept', 'kept'])
    expect([double.stock.created, double.roles.all.size]).toEqual([2, 0])
    expect(await find(tenant)).toEqual(ids)
  })

  it('gets no interpreter if its sandbox is off, and only a report if nobody requested one', async () => {
    const off = await newTenant({ sandbox_enabled: false })
    const report = await provisioner().reconcile(wanting(off))
    expect(report?.interpreters.map(({ state }) => state)).toEqual(['disabled', 'disabled'])
    const tenant = await newTenant()
    const dry = await provisioner().reconcile({ ...wanting(tenant), dryRun: true, tenantId: tenant })
    expect(dry?.interpreters.map(({ state, action }) => `${state} ${action}`)).toEqual([
      'not-requested would-create',
      'not-requested would-create',
    ])
    expect([double.stock.created, await store.codeInterpreters.list({ tenantId: tenant })]).toEqual([0, []])
  })

  it('keeps its first interpreter if the second creation fails, and can then repeat', async () => {
    const tenant = await newTenant()
    double.knobs.quota = 1
    const first = await provisioner().reconcile(wanting(tenant))
    expect(first?.interpreters).toMatchObject([
      { state: 'ready' },
      { state: 'provisioning', action: 'failed', interpreter_id: null },
    ])
    expect(first?.interpreters[1]?.detail).toMatch(/ServiceQuotaExceededException/)
    const [id, none] = await find(tenant)
    expect(none).toBeNull()
    double.knobs.quota = 1000
    const second = await provisioner().reconcile()
    expect(second?.interpreters.map(({ state }) => state)).toEqual(['ready', 'ready'])
    expect((await find(tenant))[0]).toBe(id)
    expect(double.stock.created).toBe(2)
  })

  it('gets no second interpreter if a creation’s answer is lost, late, or throttled', async () => {
    const tenant = await newTenant()
    double.knobs.visibleAfterMs = 40
    double.knobs.readyAfterMs = 60
    double.fault(
      { operation: 'CreateCodeInterpreter' },
      { operation: 'GetCodeInterpreter', error: 'ThrottlingException', times: 2 },
    )
    const report = await provisioner().reconcile(wanting(tenant))
    expect(report?.interpreters.map(({ state }) => state)).toEqual(['ready', 'ready'])
    expect(double.stock.created).toBe(2)
    expect(double.calls.filter((call) => call === 'CreateCodeInterpreter')).toHaveLength(3)
  })

  it('adopts an interpreter whose creator died before it wrote the row, even with a new token', async () => {
    const tenant = await newTenant()
    const dies = { ...store.codeInterpreters, provisioned: () => Promise.reject(new Error('killed here')) }
    await expect(provisioner({}, dies).reconcile(wanting(tenant))).rejects.toThrow('killed here')
    expect(await find(tenant)).toEqual([null, null])
    const [orphan] = double.stock.ready()
    // Forgetting raises the generation of the row. The next creation has a new token, so the service reports
    // a conflict of names.
    await store.codeInterpreters.forget(tenant, 'default-public', null, 'test')
    const report = await provisioner().reconcile()
    expect(report?.interpreters).toMatchObject([
      { action: 'adopted', interpreter_id: orphan },
      { action: 'created' },
    ])
  })

  it('gets a new interpreter if the service answers its token with a deleted one', async () => {
    const tenant = await newTenant()
    const dies = { ...store.codeInterpreters, provisioned: () => Promise.reject(new Error('killed here')) }
    await expect(provisioner({}, dies).reconcile(wanting(tenant))).rejects.toThrow('killed here')
    const [orphan = ''] = double.stock.ready()
    double.stock.delete(orphan)
    double.stock.age(orphan, HOUR_MS)
    const quick = { ready_timeout_ms: 100 }
    const first = await provisioner(quick).reconcile()
    expect(first?.interpreters).toMatchObject([
      { state: 'provisioning', action: 'failed' },
      { state: 'ready' },
    ])
    const second = await provisioner(quick).reconcile()
    expect(second?.interpreters).toMatchObject([{ action: 'created' }, { action: 'kept' }])
    expect(double.stock.ready()).not.toContain(orphan)
  })

  it('gets a new interpreter after a failed creation, which is deleted', async () => {
    const tenant = await newTenant({})
    double.knobs.failCreations = 1
    const first = await provisioner().reconcile(wanting(tenant))
    expect(first?.interpreters).toMatchObject([
      { state: 'provisioning', action: 'failed', detail: 'failed on purpose' },
      { state: 'ready' },
    ])
    const second = await provisioner().reconcile()
    expect(second?.interpreters.map(({ state }) => state)).toEqual(['ready', 'ready'])
    expect(double.stock.ready()).toHaveLength(2)
  })

  it('leaves nothing at the service if it is deleted while its interpreter is created', async () => {
    const tenant = await newTenant()
    const races: InterpreterRows = {
      ...store.codeInterpreters,
      provisioned: async (row, id, actor) => {
        await store.codeInterpreters.remove(tenant, 'other')
        return await store.codeInterpreters.provisioned(row, id, actor)
      },
    }
    await provisioner({}, races).reconcile(wanting(tenant))
    expect(double.stock.ready()).toEqual([])
  })

  it('never gets an interpreter with another network or role than configured', async () => {
    const tenant = await newTenant()
    await provisioner().reconcile(wanting(tenant))
    const ids = await find(tenant)
    await store.codeInterpreters.remove(tenant, 'test')
    const vpc = {
      internal_network: { subnets: ['subnet-0123456789abcdef0'], security_groups: ['sg-0123456789abcdef0'] },
    }
    const report = await provisioner(vpc).reconcile(wanting(tenant))
    expect(report?.interpreters).toMatchObject([
      { state: 'ready' },
      { state: 'provisioning', action: 'failed' },
    ])
    expect(report?.interpreters[1]?.detail).toMatch(/network mode is SANDBOX, configured is VPC/)
    expect(await find(tenant)).toEqual([ids[0], null])
  })
})

describe('a role per tenant', () => {
  const settings = { execution_role: 'per-tenant', data_bucket: 'acme-data' }

  it('trusts only the service in this account, and reaches only its tenant’s objects', async () => {
    const tenant = await newTenant()
    double.knobs.roleVisibleAfterMs = 50
    const report = await provisioner(settings).reconcile(wanting(tenant))
    expect(report?.interpreters.map(({ state }) => state)).toEqual(['ready', 'ready'])
    const [role, ...others] = double.roles.all.values()
    expect(others).toEqual([])
    expect(JSON.parse(role?.trust ?? '')).toMatchObject({
      Statement: [
        {
          Principal: { Service: 'bedrock-agentcore.amazonaws.com' },
          Condition: { StringEquals: { 'aws:SourceAccount': '123456789012' } },
        },
      ],
    })
    const objects = `arn:aws:s3:::acme-data/tenants/${tenant}/*`
    expect(JSON.parse(role?.policies.get('cofferdam') ?? '')).toMatchObject({
      Statement: [
        { Effect: 'Allow', Action: ['s3:GetObject', 's3:PutObject'], Resource: objects },
        { Effect: 'Deny', Action: '*', NotResource: objects },
      ],
    })
    const [id] = await find(tenant)
    expect(double.stock.get(id ?? '')).toMatchObject({ executionRoleArn: role?.arn })
  })

  it('is deleted if no interpreter was created for it', async () => {
    const tenant = await newTenant()
    double.fault({ operation: 'CreateCodeInterpreter', error: 'AccessDeniedException', times: 100 })
    const report = await provisioner({ ...settings, ready_timeout_ms: 100 }).reconcile(wanting(tenant))
    expect(report?.interpreters.map(({ action }) => action)).toEqual(['failed', 'failed'])
    expect(double.roles.all.size).toBe(0)
  })

  it('is not used if anybody else may assume it', async () => {
    const tenant = await newTenant()
    await provisioner(settings).reconcile(wanting(tenant))
    for (const role of double.roles.all.values())
      role.trust = JSON.stringify({
        Statement: [{ Effect: 'Allow', Principal: '*', Action: 'sts:AssumeRole' }],
      })
    await store.codeInterpreters.remove(tenant, 'test')
    const report = await provisioner(settings).reconcile(wanting(tenant))
    expect(report?.interpreters[0]?.detail).toMatch(/may be taken by others/)
    expect(await find(tenant)).toEqual([null, null])
  })
})

describe('the reconciler', () => {
  /** As if every ID had been written long ago. */
  const LONG_AGO: InterpreterRows = {
    list: async (options) =>
      (await store.codeInterpreters.list(options)).map((row) => ({
        ...row,
        provisioned_at: row.provisioned_at === null ? null : '2020-01-01T00:00:00.000Z',
      })),
    request: (...args) => store.codeInterpreters.request(...args),
    provisioned: (...args) => store.codeInterpreters.provisioned(...args),
    forget: (...args) => store.codeInterpreters.forget(...args),
    remove: (...args) => store.codeInterpreters.remove(...args),
    isNamed: (id) => store.codeInterpreters.isNamed(id),
    inTurn: (work) => store.codeInterpreters.inTurn(work),
  }

  it('forgets an interpreter unknown to the service, and creates one with a new token', async () => {
    const tenant = await newTenant()
    await provisioner().reconcile(wanting(tenant))
    const before = await find(tenant)
    double.stock.delete(before[0] ?? '')
    const dry = await provisioner({}, LONG_AGO).reconcile({ dryRun: true })
    expect(dry?.interpreters.map(({ action }) => action)).toEqual(['would-forget', 'kept'])
    expect(await find(tenant)).toEqual(before)
    const report = await provisioner({}, LONG_AGO).reconcile()
    expect(report?.interpreters.map(({ action }) => action)).toEqual(['created', 'kept'])
    const after = await find(tenant)
    expect([after[0] === before[0], after[1] === before[1]]).toEqual([false, true])
  })

  it('ignores a 404 for an ID that was written a moment ago', async () => {
    const tenant = await newTenant()
    await provisioner().reconcile(wanting(tenant))
    const ids = await find(tenant)
    double.knobs.visibleAfterMs = HOUR_MS
    const report = await provisioner().reconcile()
    expect(report?.interpreters.map(({ action }) => action)).toEqual(['kept', 'kept'])
    expect(await find(tenant)).toEqual(ids)
  })

  it('runs in one process at a time', async () => {
    const tenant = await newTenant()
    const inside = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    const slow: InterpreterRows = {
      ...store.codeInterpreters,
      list: async (options) => {
        inside.resolve()
        await goOn.promise
        return await store.codeInterpreters.list(options)
      },
    }
    const first = provisioner({}, slow).reconcile(wanting(tenant))
    await inside.promise
    expect(await provisioner().reconcile()).toBeNull()
    goOn.resolve()
    expect((await first)?.interpreters).toHaveLength(2)
  })

  it('reports what AWS refuses without throwing, and then changes nothing', async () => {
    const tenant = await newTenant()
    await provisioner().reconcile(wanting(tenant))
    const ids = await find(tenant)
    double.fault({ operation: 'GetCodeInterpreter', error: 'AccessDeniedException', times: 2 })
    const report = await provisioner().reconcile()
    expect(report?.interpreters.map(({ action }) => action)).toEqual(['failed', 'failed'])
    expect(await find(tenant)).toEqual(ids)
  })
})

it('shows none of our keys if AWS’s refusal repeats them', async () => {
  const tenant = await newTenant()
  const token = `IQoJcanary${'t0ken+of/the='.repeat(12)}`
  const file = join(blobDir, 'wrong')
  writeFileSync(
    file,
    `[default]\naws_access_key_id = ${EXAMPLE_SECRETS.accessKeyId}\naws_secret_access_key = wrong/secret+of/the/provisioner/00000000\naws_session_token = ${token}\n`,
  )
  const report = await provisioner({ credentials_file: file }).reconcile(wanting(tenant))
  expect(report?.interpreters).toMatchObject([{ action: 'failed' }, { action: 'failed' }])
  expect(JSON.stringify(report)).toContain('AccessDeniedException')
  const error: unknown = await provisioner({ credentials_file: file })
    .reconcile({ garbage: 'look' })
    .catch((thrown: unknown) => thrown)
  expect(isCofferdamError(error)).toBe(true)
  const all = [JSON.stringify(report)]
  for (let one = error; one instanceof Error; one = one.cause) all.push(one.message, one.stack ?? '')
  expect(all.join()).toContain('x-amz-security-token:<redacted>')
  for (const key of [EXAMPLE_SECRETS.accessKeyId, token]) expect(all.join()).not.toContain(key)
})

describe('the garbage collector', () => {
  it('deletes interpreters with our names that are an hour old and in no row, after a dry run', async () => {
    const tenant = await newTenant()
    const lost = await newTenant()
    await provisioner().reconcile({
      request: [tenant, lost].map((tenantId) => ({ tenantId, environments: BOTH })),
    })
    const garbage = await find(lost)
    await store.codeInterpreters.remove(lost, 'test')
    const foreign = double.stock.create({
      name: 'somebody_else',
      networkConfiguration: { networkMode: 'PUBLIC' },
    })
    const staging = provisioner({ prefix: 'staging' })
    await staging.reconcile({ ...wanting(await newTenant()), tenantId: 'nobody' })
    for (const id of double.stock.ready()) if (id !== garbage[1]) double.stock.age(id, 2 * HOUR_MS)
    double.knobs.pageMax = 2

    const look = await provisioner().reconcile({ garbage: 'look' })
    expect(look?.garbage?.map(({ action, interpreter_id: id }) => [action, id])).toEqual([
      ['would-delete', garbage[0]],
      ['young', garbage[1]],
    ])
    const before = double.stock.ready().length
    const dry = await provisioner().reconcile({ garbage: 'delete', dryRun: true })
    expect(dry?.garbage?.[0]?.action).toBe('would-delete')
    expect(double.stock.ready()).toHaveLength(before)

    const report = await provisioner().reconcile({ garbage: 'delete' })
    expect(report?.garbage?.map(({ action }) => action)).toEqual(['deleted', 'young'])
    expect(double.stock.ready()).not.toContain(garbage[0])
    expect(double.stock.ready()).toContain(foreign.codeInterpreterId)
    expect(double.stock.ready()).toEqual(expect.arrayContaining(await find(tenant)))
  })

  it('keeps an interpreter that a row waits for', async () => {
    const tenant = await newTenant()
    await provisioner().reconcile(wanting(tenant))
    const [id] = await find(tenant)
    double.stock.age(id ?? '', 2 * HOUR_MS)
    await store.codeInterpreters.forget(tenant, 'default-public', id ?? '', 'test')
    double.fault({ operation: 'CreateCodeInterpreter', error: 'AccessDeniedException' })
    const report = await provisioner().reconcile({ garbage: 'delete' })
    expect(report?.garbage).toMatchObject([{ interpreter_id: id, action: 'wanted' }])
  })
})

describe('removing a tenant', () => {
  it('deletes interpreters, role and rows, even interpreters that were never written down', async () => {
    const tenant = await newTenant()
    const settings = { execution_role: 'per-tenant' }
    await provisioner(settings).reconcile(wanting(tenant))
    await store.codeInterpreters.remove(tenant, 'test')
    expect(await provisioner(settings).remove(tenant)).toHaveLength(2)
    expect([double.stock.ready(), double.roles.all.size]).toEqual([[], 0])
    expect(await store.codeInterpreters.list({ tenantId: tenant })).toEqual([])
    expect(await provisioner(settings).remove(tenant)).toEqual([])
  })
})
