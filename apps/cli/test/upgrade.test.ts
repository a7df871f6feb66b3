/** `cofferdam upgrade --check` on a real queue and database. */
import { isolatedRedis, type TestServer } from '@cofferdam/embedded/testing'
import { announceVersion, connectRedis, RECORD_VERSION } from '@cofferdam/queue'
import { migrate, SCHEMA_VERSION } from '@cofferdam/store'
import { createTestDatabase, migrateUpTo, type TestDatabase } from '@cofferdam/store/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import workspace from '../package.json' with { type: 'json' }
import { runHere } from './command-here.ts'

let server: TestServer
let database: TestDatabase
beforeAll(async () => {
  ;[server, database] = await Promise.all([isolatedRedis(), createTestDatabase({ template: false })])
})
afterAll(async () => {
  await Promise.all([server?.stop(), database?.drop()])
})

const check = (words: string[] = []) =>
  runHere(['upgrade', '--check', ...words], {
    cwd: '/',
    env: { REDIS_URL: server.url, DATABASE_URL: database.url },
  })

it('says what is left to do and exits 1, and exits 0 when nothing is', async () => {
  const redis = connectRedis(server.url, 'producer')
  await migrateUpTo(database.url, SCHEMA_VERSION - 1)
  try {
    await using announced = announceVersion({
      redis,
      role: 'worker',
      id: 'wrk_1',
      version: workspace.version,
      schema: SCHEMA_VERSION,
      onError: (error) => expect.fail(String(error)),
    })
    expect(announced).toBeDefined()
    await expect.poll(() => redis.hlen('{cofferdam}:versions'), { timeout: 20_000 }).toBe(1)
    const left = await check()
    expect(left.status).toBe(1)
    expect(left.stdout).toMatch(
      /The database is at migration \d+ and lacks \d{4}-.*\.sql\.\n +→ Run `cofferdam setup`/,
    )
    const { stdout } = await check(['--json'])
    expect(JSON.parse(stdout)).toMatchObject({
      database: { schema: SCHEMA_VERSION - 1, pending: [expect.any(String)] },
      processes: [{ role: 'worker', id: 'wrk_1' }],
      findings: [{ fix: expect.stringContaining('cofferdam setup') }],
    })

    await migrate(database.url)
    const done = await check()
    expect(done).toMatchObject({ status: 0, stderr: '' })
    expect(done.stdout).toContain('Nothing is left to do.')
    expect(done.stdout).toMatch(
      new RegExp(`worker +wrk_1 +${workspace.version} +${SCHEMA_VERSION} +${RECORD_VERSION}`),
    )
  } finally {
    redis.disconnect()
  }
})

it('does nothing without --check', async () => {
  const { status, stderr } = await runHere(['upgrade'], { cwd: '/', env: {} })
  expect(status).toBe(2)
  expect(stderr).toContain('--check')
})
