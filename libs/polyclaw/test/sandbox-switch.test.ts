/** The switch over a real Redis: who may pass while it is off, and what happens without settings. */
import { testRedis, type TestServer } from '@cofferdam/embedded/testing'
import { connectRedis } from '@cofferdam/queue'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createSandboxSwitch, grantSandboxTest } from '../src/sandbox-switch.ts'

const POOL = 'https://pool.example'
let server: TestServer
let redis: Redis
const told: unknown[] = []

beforeAll(async () => {
  server = await testRedis()
  redis = connectRedis(server.url, 'worker')
})
afterAll(async () => {
  redis.disconnect()
  await server.stop()
})

let allowed: string[] = []
const switched = (
  read: () => Promise<{ enabled: boolean; session_pool_endpoint: string }>,
  answerMs = 30_000,
) => {
  allowed = []
  const allow = (endpoint: string): void => void allowed.push(endpoint)
  return createSandboxSwitch({ redis, allow, read, onError: (error) => told.push(error), answerMs })
}
const at = (enabled: boolean, session_pool_endpoint = POOL) =>
  switched(async () => ({ enabled, session_pool_endpoint }))

it('allows every execution in the configured pool while enabled, and none without a pool', async () => {
  for (const pool of [POOL, 'https://other.example']) {
    expect(await at(true, pool).refuses({ tenant_id: 'acme' })).toBeNull()
    expect(allowed).toEqual([pool])
  }
  expect(await at(true, '').refuses({ tenant_id: 'acme' })).toContain('has no pool')
  expect(allowed).toEqual([])
})

it('allows only a granted test of the same tenant while disabled', async () => {
  const key = await grantSandboxTest(redis, 'acme', 60_000)
  const off = at(false)
  expect(await off.refuses({ tenant_id: 'acme', idempotency_key: key })).toBeNull()
  for (const request of [
    { tenant_id: 'acme' },
    { tenant_id: 'acme', idempotency_key: `${key}0` },
    { tenant_id: 'globex', idempotency_key: key },
  ])
    expect(await off.refuses(request)).toContain('is disabled')
  expect(allowed).toEqual([POOL])
})

it('refuses when the settings cannot be read in time', async () => {
  for (const read of [() => Promise.reject(new Error('away')), () => new Promise<never>(() => undefined)])
    expect(await switched(read, 50).refuses({ tenant_id: 'acme' })).toContain('cannot be read')
  expect(told).toHaveLength(2)
})
