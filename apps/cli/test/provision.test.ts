/** `cofferdam provision agentcore` as an operator runs it, against the account's double and a real Postgres. */
import { createStore } from '@cofferdam/store'
import { createTestDatabase, type TestDatabase } from '@cofferdam/store/testing'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  startAccountDouble,
  type AccountDouble,
} from '../../../infra/doubles/agentcore/control/control-plane.ts'
import { run, type Ended } from './command-process.ts'

let database: TestDatabase
let double: AccountDouble
const cwd = mkdtempSync(join(tmpdir(), 'cofferdam-provision-'))
beforeAll(async () => {
  database = await createTestDatabase()
  double = await startAccountDouble()
  await using store = await createStore({ databaseUrl: database.url, blobDir: join(cwd, 'blobs') })
  for (const tenant of ['acme', 'globex']) await store.tenants.create({ tenant_id: tenant }, 'test')
  writeFileSync(
    join(cwd, 'cofferdam.config.yaml'),
    `provisioning:\n  agentcore:\n    region: ${double.region}\n    control_url: ${double.origin}\n    poll_ms: 5\n`,
  )
})
afterAll(async () => {
  await double[Symbol.asyncDispose]()
  await database.drop()
  rmSync(cwd, { recursive: true, force: true })
})

const provision = (...args: string[]): Promise<Ended> =>
  run(['provision', 'agentcore', ...args], {
    cwd,
    env: {
      DATABASE_URL: database.url,
      AWS_ACCESS_KEY_ID: double.secrets.accessKeyId,
      AWS_SECRET_ACCESS_KEY: double.secrets.secretAccessKey,
    },
  })

it('shows what it would do, does it, shows why something is not ready, and removes it', async () => {
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

it('says what is missing in the configuration', async () => {
  const ended = await run(['provision', 'agentcore'], { cwd: tmpdir(), env: {} })
  expect(ended).toMatchObject({ status: 2 })
  expect(ended.stderr).toMatch(/no section provisioning\.agentcore/)
})
