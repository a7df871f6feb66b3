/** The routes below /api/sandbox, over a real Redis and Postgres and an emulator of Azure's management. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { azureProvisionConfigSchema, createPoolProvisioner, type PoolProvisioner } from '@cofferdam/backends'
import { createSandboxConfigs } from '@cofferdam/polyclaw'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { startAzureDouble, type AzureDouble } from '@cofferdam/backend-azure/double'
import { openScene, type Scene } from './scene.ts'

const SUBSCRIPTION = '11111111-2222-3333-4444-555555555555'
const PRINCIPAL = '99999999-2222-3333-4444-555555555555'

let folder: string
let scene: Scene
let double: AzureDouble
let provisioner: PoolProvisioner
let server: Awaited<ReturnType<Scene['another']>>

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sandbox-api-'))
  await writeFile(join(folder, 'header'), 'double-identity-header')
  scene = await openScene()
})
afterAll(async () => {
  await scene[Symbol.asyncDispose]()
  await rm(folder, { recursive: true })
})
beforeEach(async () => {
  double = await startAzureDouble({ pools: [] })
  provisioner = createPoolProvisioner(
    azureProvisionConfigSchema.parse({
      subscription: SUBSCRIPTION,
      principals: [PRINCIPAL],
      arm_endpoint: double.origin,
      credentials: ['managed-identity'],
      identity_endpoint: double.identityEndpoint,
      identity_header_file: join(folder, 'header'),
      retry_ms: 1,
    }),
  )
  server = await scene.another({}, { pools: provisioner })
})
afterEach(async () => {
  await send('DELETE', '/api/sandbox/provision')
  await server.close()
  await double[Symbol.asyncDispose]()
})

async function send(
  method: 'GET' | 'POST' | 'DELETE',
  url: string,
  body?: object,
  headers: object = scene.admin,
) {
  const response = await server.inject({
    method,
    url,
    headers: { ...headers },
    ...(body === undefined ? {} : { payload: body }),
  })
  return { status: response.statusCode, etag: response.headers['etag'], json: response.json() }
}
const configNow = async () => (await send('GET', '/api/sandbox/config')).json
const poolId = (name: string, group = 'rg1') =>
  `/subscriptions/${SUBSCRIPTION}/resourceGroups/${group}/providers/Microsoft.App/sessionPools/${name}`
const WISH = { resource_group: 'rg1', pool_name: 'poolone' }

test('the configuration starts with the defaults, and only admins may read it', async () => {
  const { status, json } = await send('GET', '/api/sandbox/config')
  expect(status).toBe(200)
  expect(json).toMatchObject({
    enabled: false,
    sync_data: true,
    session_pool_endpoint: '',
    is_provisioned: false,
    experimental: true,
    blacklist: ['.azure', '.cache', '.config', '.IdentityService', '.net', '.npm', '.pki'],
  })
  expect(json.whitelist).toEqual(json.default_whitelist)
  expect(json.warnings).toContain('.env holds secrets: it is never carried, whatever the whitelist says.')
  for (const [method, url] of [
    ['GET', '/api/sandbox/config'],
    ['POST', '/api/sandbox/config'],
    ['POST', '/api/sandbox/test'],
    ['POST', '/api/sandbox/provision'],
    ['DELETE', '/api/sandbox/provision'],
    ['GET', '/api/sandbox/config/events'],
  ] as const) {
    expect((await send(method, url, undefined, {})).status).toBe(401)
    expect((await send(method, url, undefined, scene.acme)).status).toBe(403)
  }
})

test('a test command runs for a separate tenant when several tenants exist and none is named', async () => {
  for (const tenant_id of ['one', 'two']) await send('POST', '/v1/tenants', { tenant_id })
  const { status, json } = await send('POST', '/api/sandbox/test', { command: 'true', timeout: 40 })
  expect([status, json.success]).toEqual([200, true])
  const listed = await send('GET', '/v1/executions?tenant_id=cofferdam-sandbox-test')
  expect(listed.json.executions).toMatchObject([{ execution_id: json.execution_id }])
})

test('every field can be changed, and the endpoint loses its trailing slash', async () => {
  const { json } = await send('POST', '/api/sandbox/config', {
    enabled: true,
    session_pool_endpoint: 'https://pool.eastus.azurecontainerapps.io/',
    sync_data: false,
    whitelist: ['notes/', './media', 'x'],
    add_whitelist: 'extra',
    remove_whitelist: 'x',
  })
  expect(json).toMatchObject({
    enabled: true,
    session_pool_endpoint: 'https://pool.eastus.azurecontainerapps.io',
    sync_data: false,
    whitelist: ['notes', 'media', 'extra'],
  })
  const reset = await send('POST', '/api/sandbox/config', {
    reset_whitelist: true,
    enabled: false,
    sync_data: true,
    session_pool_endpoint: '',
  })
  expect(reset.json.whitelist).toEqual(reset.json.default_whitelist)
})

test.each([
  { add_whitelist: '.azure' },
  { add_whitelist: './.AZURE/' },
  { whitelist: ['notes', 'deep/.cache'] },
  { add_whitelist: '../etc' },
  { enabled: true },
  { session_pool_endpoint: 'http://example.com' },
  { session_pool_endpoint: 'https://user:key@example.com' },
  { sync_data: 'yes' },
  { unknown: 1 },
])('a body with one invalid field changes nothing: %j', async (bad) => {
  const before = await configNow()
  const { status } = await send('POST', '/api/sandbox/config', { sync_data: false, ...bad })
  expect(status).toBe(400)
  expect(await configNow()).toEqual(before)
})

test('a change with a stale If-Match is refused, and each change has an event', async () => {
  const { etag } = await send('GET', '/api/sandbox/config')
  const match = (tag: unknown) => ({ ...scene.admin, 'if-match': String(tag) })
  expect((await send('POST', '/api/sandbox/config', { sync_data: false }, match(etag))).status).toBe(200)
  expect((await send('POST', '/api/sandbox/config', { sync_data: true }, match(etag))).status).toBe(409)
  expect((await send('POST', '/api/sandbox/config', { sync_data: true }, match('*'))).status).toBe(200)
  const { json } = await send('GET', '/api/sandbox/config/events?limit=2')
  expect(json.events).toMatchObject([
    { event_type: 'changed', source: 'api', before: { sync_data: false }, after: { sync_data: true } },
    { event_type: 'changed', before: { sync_data: true }, after: { sync_data: false } },
  ])
  expect(json.events[0].actor).toMatch(/^key:/)
})

test('a pool is created once, with tags and roles and no egress, and removed with its group', async () => {
  const made = await send('POST', '/api/sandbox/provision', WISH)
  expect([made.status, made.json.status]).toEqual([200, 'made'])
  expect(made.json.config).toMatchObject({
    is_provisioned: true,
    enabled: false,
    pool_name: 'poolone',
    resource_group: 'rg1',
    location: 'eastus',
    pool_id: poolId('poolone'),
    session_pool_endpoint: double.endpoint('poolone'),
    provisioning: null,
  })
  const [pool] = [...double.arm.pools.values()]
  expect(pool).toMatchObject({
    tags: { 'fleet-owner': expect.stringMatching(/^[0-9a-f-]{36}$/) },
    properties: {
      containerType: 'PythonLTS',
      sessionNetworkConfiguration: { status: 'EgressDisabled' },
      scaleConfiguration: { maxConcurrentSessions: 10 },
    },
  })
  expect([...double.arm.roles.values()]).toMatchObject([{ principalId: PRINCIPAL }])

  const again = await send('POST', '/api/sandbox/provision', { pool_name: 'another' })
  expect([again.json.status, double.arm.pools.size]).toEqual(['already_provisioned', 1])

  await send('POST', '/api/sandbox/config', { enabled: true })
  const removed = await send('DELETE', '/api/sandbox/provision')
  expect(removed.json).toMatchObject({ status: 'removed', resource_group: 'gone' })
  expect(removed.json.config).toMatchObject({
    enabled: false,
    pool_id: '',
    session_pool_endpoint: '',
    orphans: [],
  })
  expect([double.arm.pools.size, double.arm.groups.size]).toEqual([0, 0])
  expect((await send('DELETE', '/api/sandbox/provision')).json.status).toBe('not_provisioned')
})

test('a resource group that existed before, or that holds something else, is kept', async () => {
  const group = `/subscriptions/${SUBSCRIPTION}/resourcegroups/rg1`
  double.arm.groups.set(group, { id: group, location: 'eastus', tags: {} })
  await send('POST', '/api/sandbox/provision', WISH)
  expect((await send('DELETE', '/api/sandbox/provision')).json.resource_group).toBe('kept')
  double.arm.groups.clear()

  await send('POST', '/api/sandbox/provision', WISH)
  double.arm.others.push({
    id: `${group}/providers/Microsoft.Storage/storageAccounts/x`,
    type: 'x',
    tags: {},
  })
  expect((await send('DELETE', '/api/sandbox/provision')).json.resource_group).toBe('kept')
  expect(double.arm.groups.has(group)).toBe(true)
})

test('a pool of the same name that belongs to somebody else is neither changed nor removed', async () => {
  const group = `/subscriptions/${SUBSCRIPTION}/resourcegroups/rg1`
  double.arm.groups.set(group, { id: group, location: 'eastus', tags: {} })
  const id = poolId('poolone')
  const theirs = {
    id,
    type: 'Microsoft.App/sessionPools',
    tags: { team: 'other' },
    location: 'eastus',
    properties: { poolManagementType: 'Dynamic' },
  }
  double.arm.pools.set(id.toLowerCase(), theirs)
  const { status, json } = await send('POST', '/api/sandbox/provision', WISH)
  expect([status, json.error.code]).toEqual([409, 'conflict'])
  expect(double.arm.pools.get(id.toLowerCase())).toBe(theirs)
  expect(await configNow()).toMatchObject({ is_provisioned: false, provisioning: null, orphans: [] })
  double.arm.pools.clear()
})

test('a failed creation of a pool leaves nothing behind', async () => {
  double.arm.faults.fail_pool = true
  const { status, json } = await send('POST', '/api/sandbox/provision', WISH)
  expect([status, json.error.details.azure_code]).toEqual([503, 'PoolFailed'])
  expect([double.arm.pools.size, double.arm.groups.size]).toEqual([0, 0])
  expect(await configNow()).toMatchObject({ is_provisioned: false, provisioning: null, orphans: [] })
})

test('a pool is created and removed despite throttling, lost answers and late parts', async () => {
  Object.assign(double.arm.faults, {
    throttle: 2,
    drop_after: { contains: 'PUT', times: 3 },
    late_endpoint: true,
    principal_late: 3,
    polls: 5,
  })
  expect((await send('POST', '/api/sandbox/provision', WISH)).json.status).toBe('made')
  double.arm.faults.drop_after = { contains: 'DELETE', times: 2 }
  expect((await send('DELETE', '/api/sandbox/provision')).json.status).toBe('removed')
  expect([double.arm.pools.size, double.arm.groups.size]).toEqual([0, 0])
})

test('a pool stays in the configuration and is listed as an orphan until its removal is proven', async () => {
  await send('POST', '/api/sandbox/provision', WISH)
  double.arm.faults.deaf_delete = true
  const { status, json } = await send('DELETE', '/api/sandbox/provision')
  expect([status, json.error.details.azure_code]).toEqual([503, 'StillThere'])
  expect(await configNow()).toMatchObject({
    is_provisioned: true,
    pool_id: poolId('poolone'),
    orphans: [{ resource_id: poolId('poolone') }],
  })
  double.arm.faults.deaf_delete = false
  expect((await send('DELETE', '/api/sandbox/provision')).json).toMatchObject({
    status: 'removed',
    config: { orphans: [], pool_id: '' },
  })
})

test('an operation that leads to another origin is not followed with the token', async () => {
  double.arm.faults.foreign_poll = 'http://127.0.0.1:9'
  const { json } = await send('POST', '/api/sandbox/provision', WISH)
  expect(json.error.details.azure_code).toBe('ForeignUrl')
  double.arm.faults.foreign_poll = null
  // The pool of the failed creation is still there, because its deletion also led to the other origin.
  const { orphans } = await configNow()
  expect(orphans).toMatchObject([{ resource_id: poolId('poolone') }])
  await send('POST', '/api/sandbox/provision', WISH)
  expect((await configNow()).orphans).toEqual([])
})

test('the next request finishes the creation that a dead process began, under the same names', async () => {
  const sandboxConfig = createSandboxConfigs(scene.store)
  const { fleetOwner } = await sandboxConfig.get()
  const plan = { subscription: SUBSCRIPTION, location: 'eastus', owner: fleetOwner, ...WISH }
  const dead = await sandboxConfig.claim('key:dead', 60_000, () => ({ kind: 'making', plan }))
  expect((await send('POST', '/api/sandbox/provision', WISH)).status).toBe(409)
  await sandboxConfig.renew(dead!.lease, 'pool', 0)
  expect((await configNow()).provisioning).toEqual({ kind: 'making', step: 'pool', held: false })

  const other = await send('POST', '/api/sandbox/provision', { pool_name: 'another' })
  expect([other.status, other.json.error.message]).toEqual([409, expect.stringContaining('left half made')])
  expect((await send('POST', '/api/sandbox/provision')).json).toMatchObject({
    status: 'made',
    config: { pool_name: 'poolone', resource_group: 'rg1' },
  })
  // The process that was believed dead wakes up. It can no longer write anything.
  await expect(sandboxConfig.finish(dead!.lease, 'key:dead', {})).rejects.toMatchObject({ code: 'fenced' })
})

test('a pool that a dead process began to remove is not reported as provisioned', async () => {
  await send('POST', '/api/sandbox/provision', WISH)
  const sandboxConfig = createSandboxConfigs(scene.store)
  const { fleetOwner } = await sandboxConfig.get()
  const plan = { subscription: SUBSCRIPTION, location: 'eastus', owner: fleetOwner, ...WISH }
  const dead = await sandboxConfig.claim('key:dead', 60_000, () => ({ kind: 'removing', plan }))
  await sandboxConfig.renew(dead!.lease, 'pool', 0)
  const { status, json } = await send('POST', '/api/sandbox/provision', WISH)
  expect([status, json.error.message]).toEqual([409, expect.stringContaining('send DELETE again')])
  expect((await send('DELETE', '/api/sandbox/provision')).json).toMatchObject({ status: 'removed' })
})

test('two concurrent requests create one pool', async () => {
  const answers = await Promise.all([
    send('POST', '/api/sandbox/provision', WISH),
    send('POST', '/api/sandbox/provision', WISH),
  ])
  expect(answers.map(({ status }) => status).toSorted()[0]).toBe(200)
  expect(double.arm.pools.size).toBe(1)
  expect(
    double.requests.filter((line) => line.startsWith('PUT') && /sessionPools\/poolone\?/.test(line)),
  ).toHaveLength(1)
})

test('an API without a configured subscription answers that it cannot create pools', async () => {
  await using without = await scene.another()
  const response = await without.inject({
    method: 'POST',
    url: '/api/sandbox/provision',
    headers: scene.admin,
  })
  expect([response.statusCode, response.json().error.code]).toEqual([422, 'capability_missing'])
})
