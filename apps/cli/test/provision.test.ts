/** `cofferdam provision` as an operator runs it, against the vendors' emulators and a real Postgres. */
import { createSandboxConfigs } from '@cofferdam/polyclaw'
import { createStore } from '@cofferdam/store'
import { createTestDatabase, PATIENT_TIMEOUTS, type TestDatabase } from '@cofferdam/store/testing'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAccountDouble, type AccountDouble } from '@cofferdam/backend-agentcore/double'
import { startAzureDouble, type AzureDouble, PRINCIPAL } from '@cofferdam/backend-azure/double'
import { runHere } from './command-here.ts'
import { run, type Ended } from './command-process.ts'

const SUBSCRIPTION = '11111111-2222-3333-4444-555555555555'

let database: TestDatabase
let double: AccountDouble
let azure: AzureDouble
const cwd = mkdtempSync(join(tmpdir(), 'cofferdam-provision-'))
beforeAll(async () => {
  database = await createTestDatabase()
  double = await startAccountDouble()
  azure = await startAzureDouble({ pools: [] })
  const header = join(cwd, 'header')
  writeFileSync(header, azure.identity.settings.identityHeader)
  await using store = await openStore()
  for (const tenant of ['acme', 'globex']) await store.tenants.create({ tenant_id: tenant }, 'test')
  writeFileSync(
    join(cwd, 'cofferdam.config.yaml'),
    JSON.stringify({
      provisioning: {
        agentcore: { region: double.region, control_url: double.origin, poll_ms: 5 },
        azure: {
          subscription: SUBSCRIPTION,
          arm_endpoint: azure.origin,
          credentials: ['managed-identity'],
          identity_endpoint: azure.identityEndpoint,
          identity_header_file: header,
          retry_ms: 1,
        },
      },
    }),
  )
})
afterAll(async () => {
  await double[Symbol.asyncDispose]()
  await azure[Symbol.asyncDispose]()
  await database.drop()
  rmSync(cwd, { recursive: true, force: true })
})

const openStore = () =>
  createStore({ databaseUrl: database.url, blobDir: join(cwd, 'blobs'), timeouts: PATIENT_TIMEOUTS })

/** In a process of its own, because the AWS SDK reads the credentials from its environment. */
const provision = (...args: string[]): Promise<Ended> =>
  run(['provision', 'agentcore', ...args], {
    cwd,
    env: {
      DATABASE_URL: database.url,
      AWS_ACCESS_KEY_ID: double.secrets.accessKeyId,
      AWS_SECRET_ACCESS_KEY: double.secrets.secretAccessKey,
    },
  })

const provisionHere = (vendor: string, ...args: string[]): Promise<Ended> =>
  runHere(['provision', vendor, ...args], {
    cwd,
    env: { DATABASE_URL: database.url, COFFERDAM_CONFIG: join(cwd, 'cofferdam.config.yaml') },
  })

it('provision agentcore shows its plan, executes it, reports what is not ready, and removes it', async () => {
  const dry = await provision('--all', '--dry-run')
  expect(dry).toMatchObject({ status: 0, stderr: '' })
  expect(dry.stdout.match(/not-requested {2}would-create/g)).toHaveLength(4)
  expect(double.stock.created).toBe(0)

  double.knobs.quota = 1
  const first = await provision('--tenant', 'acme')
  expect(first.status).toBe(1)
  expect(first.stdout).toMatch(
    /acme +default-public +ready +created +cofferdam_acme_822b33ad87c148a0_pub-\w{10}/,
  )
  expect(first.stdout).toMatch(/acme +internal-only +provisioning +failed +- .*ServiceQuotaExceededException/)
  double.knobs.quota = 1000

  const all = await provision('--all', '--gc', '--json')
  expect(all.status).toBe(0)
  const report = JSON.parse(all.stdout) as {
    interpreters: { tenant_id: string; state: string }[]
    garbage: unknown[]
  }
  expect(report.interpreters.map(({ tenant_id: tenant, state }) => `${tenant} ${state}`)).toEqual([
    'acme ready',
    'acme ready',
    'globex ready',
    'globex ready',
  ])
  expect(report.garbage).toEqual([])
  expect(double.stock.ready()).toHaveLength(4)
  const removed = await provision('--tenant', 'acme', '--remove')
  expect(removed).toMatchObject({ status: 0, stdout: '2 interpreters of acme deleted.\n' })
  expect(double.stock.ready()).toHaveLength(2)
})

it('provision azure creates the fleet’s pool once, and removes it with its resource group', async () => {
  const names = ['--resource-group', 'rg1', '--pool-name', 'poolone']
  const dry = await provisionHere('azure', ...names, '--dry-run')
  expect(dry).toMatchObject({ status: 0, stderr: '' })
  expect(dry.stdout).toMatch(/group +rg1 +absent +would-create +-\npool +poolone +absent +would-create +-\n/)
  expect([azure.arm.groups.size, azure.arm.pools.size]).toEqual([0, 0])
  const unnamed = await provisionHere('azure', '--dry-run')
  expect(unnamed.stdout).toMatch(/pool +cofferdam[0-9a-f]+ +absent +would-create +a name made at random/)

  const made = await provisionHere('azure', ...names)
  expect(made).toMatchObject({ status: 0, stderr: '' })
  expect(made.stdout).toMatch(/pool +poolone +ready +created +-\n/)
  expect(made.stdout).toContain(`Endpoint: ${azure.endpoint('poolone')}\nDisabled: `)
  expect([...azure.arm.roles.values()]).toMatchObject([{ principalId: PRINCIPAL }])
  const again = await provisionHere('azure', '--json')
  expect(JSON.parse(again.stdout)).toMatchObject({
    status: 'already_provisioned',
    endpoint: azure.endpoint('poolone'),
    enabled: false,
    orphans: [],
  })

  const wouldRemove = await provisionHere('azure', '--remove', '--dry-run')
  expect(wouldRemove.stdout).toMatch(/group +rg1 +ours +would-delete .*\npool +poolone +ours +would-delete/)
  azure.arm.faults.deaf_delete = true
  const deaf = await provisionHere('azure', '--remove')
  expect(deaf.status).toBe(1)
  expect(deaf.stderr).toContain('still there')
  azure.arm.faults.deaf_delete = false
  const removed = await provisionHere('azure', '--remove', '--json')
  expect(removed.status).toBe(0)
  expect(JSON.parse(removed.stdout)).toMatchObject({
    status: 'removed',
    resources: [
      { resource: 'pool', name: 'poolone', state: 'gone', action: 'deleted' },
      { resource: 'group', name: 'rg1', state: 'gone', action: 'deleted' },
    ],
    endpoint: null,
    orphans: [],
  })
  expect([azure.arm.groups.size, azure.arm.pools.size]).toEqual([0, 0])
})

it('provision azure --remove deletes what a dead process left half created, and names it', async () => {
  await using store = await openStore()
  const { fleetOwner } = await createSandboxConfigs(store).get()
  const plan = {
    subscription: '11111111-2222-3333-4444-555555555555',
    resource_group: 'rg2',
    pool_name: 'halfmade',
    location: 'eastus',
    owner: fleetOwner,
  }
  await createSandboxConfigs(store).claim('a process that died', 0, () => ({ kind: 'making', plan }))
  const removed = await provisionHere('azure', '--remove')
  expect(removed).toMatchObject({ status: 0, stderr: '' })
  expect(removed.stdout).toMatch(/pool +halfmade +gone +deleted +-\ngroup +rg2 +gone +deleted +-\n/)
  expect((await provisionHere('azure', '--remove')).stdout).toBe('There is no pool.\n')
})

it('provision azure reports a concurrent creation or removal, even in a dry run', async () => {
  await using store = await openStore()
  const plan = { kind: 'making', plan: {} } as const
  const claimed = await createSandboxConfigs(store).claim('another', 600_000, () => plan)
  for (const args of [[], ['--dry-run'], ['--remove', '--dry-run']]) {
    const ended = await provisionHere('azure', ...args)
    expect([ended.status, ended.stderr]).toEqual([1, expect.stringContaining('is being made or removed by')])
  }
  await createSandboxConfigs(store).finish(claimed?.lease ?? '', 'another', {})
})

it('provision accepts only names and flags that fit the vendor', async () => {
  for (const [words, said] of [
    [['azure', '--gc'], 'takes no --gc'],
    [['agentcore', '--location', 'eastus'], 'takes no --location'],
    [['azure', '--pool-name', 'Bad_Name'], '--pool-name: expected 3-63'],
    [['azure', '--remove', '--pool-name', 'other'], 'name no other'],
    [['elsewhere'], 'knows agentcore and azure'],
  ] as const) {
    const [vendor, ...args] = words
    const ended = await provisionHere(vendor, ...args)
    expect([ended.status, ended.stderr]).toEqual([2, expect.stringContaining(said)])
  }
})

it('provision reports a missing section of the configuration', async () => {
  const ended = await run(['provision', 'agentcore'], { cwd: tmpdir(), env: {} })
  expect(ended).toMatchObject({ status: 2 })
  expect(ended.stderr).toMatch(/no section provisioning\.agentcore/)
})
