/** The worker's provisioning rounds against an emulator of an AWS account, with rows in a real Postgres. */
import { agentcoreProvisionConfigSchema } from '@cofferdam/backends'
import { createStore, type Store } from '@cofferdam/store'
import { createTestDatabase, PATIENT_TIMEOUTS, type TestDatabase } from '@cofferdam/store/testing'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { startAccountDouble, type AccountDouble, EXAMPLE_SECRETS } from '@cofferdam/backend-agentcore/double'
import { keepProvisioned } from '../src/keep-provisioned.ts'

let database: TestDatabase
let store: Store
let blobDir: string
let double: AccountDouble
beforeAll(async () => {
  database = await createTestDatabase()
  blobDir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
  const { accessKeyId, secretAccessKey } = EXAMPLE_SECRETS
  writeFileSync(
    join(blobDir, 'credentials'),
    `[default]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n`,
  )
  store = await createStore({ databaseUrl: database.url, blobDir, timeouts: PATIENT_TIMEOUTS })
  double = await startAccountDouble()
  double.knobs.changesPerSecond = 1000
})
afterAll(async () => {
  await double[Symbol.asyncDispose]()
  await store[Symbol.asyncDispose]()
  await database.drop()
  rmSync(blobDir, { recursive: true, force: true })
})

it('two workers provision each enabled tenant once, and delete garbage that they saw twice', async () => {
  await store.tenants.create({ tenant_id: 'both' }, 'test')
  await store.tenants.create({ tenant_id: 'inner', policy: { environments: ['internal-only'] } }, 'test')
  await store.tenants.create({ tenant_id: 'off', policy: { sandbox_enabled: false } }, 'test')
  const garbage = double.stock.create({
    name: 'cofferdam_gone_0123456789abcdef_pub',
    networkConfiguration: { networkMode: 'PUBLIC' },
  })
  double.stock.age(garbage.codeInterpreterId, 7_200_000)
  const logger = { info: vi.fn<() => void>(), warn: vi.fn<() => void>() }
  const errors: unknown[] = []
  const config = agentcoreProvisionConfigSchema.parse({
    region: double.region,
    control_url: double.origin,
    credentials_file: join(blobDir, 'credentials'),
    tenants: 'all',
    collect_garbage: true,
    poll_ms: 5,
  })
  const worker = (actor: string) =>
    keepProvisioned({
      config,
      everyMs: 20,
      store,
      actor,
      logger,
      onError: (error) => errors.push(error),
    })
  {
    await using _first = worker('w1')
    await using _second = worker('w2')
    // Wait for the log before the workers close: a round logs its work when it ends, and closing a worker
    // aborts its round.
    await vi.waitFor(() => {
      expect(logger.info).toHaveBeenCalledTimes(3)
      expect(logger.warn).toHaveBeenCalledTimes(1)
    }, 20_000)
    expect(double.stock.ready()).not.toContain(garbage.codeInterpreterId)
    await vi.waitFor(async () => {
      const rows = await store.codeInterpreters.list({})
      expect(rows.map(({ tenant_id: id, interpreter_id: at }) => [id, at !== null])).toEqual([
        ['both', true],
        ['both', true],
        ['inner', true],
      ])
    }, 20_000)
  }
  expect(errors).toEqual([])
  expect(double.stock.created).toBe(4)
  expect(logger.info).toHaveBeenCalledTimes(3)
  expect(logger.warn).toHaveBeenCalledTimes(1)
})
