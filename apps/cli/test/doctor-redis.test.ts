/** What `cofferdam doctor` says of a configured Redis. */
import { isolatedRedis, type TestServer } from '@cofferdam/embedded/testing'
import { connectRedis } from '@cofferdam/queue'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { redisFinding } from '../src/commands/doctor.ts'

let server: TestServer
beforeAll(async () => {
  server = await isolatedRedis()
})
afterAll(() => server?.stop())

it('names the version of a Redis that answers, and warns if a restart would lose executions', async () => {
  const warning = '; without appendonly a restart loses executions'
  const { ok, found } = await redisFinding(server.url)
  expect(ok).toBe(true)
  expect(found).toMatch(new RegExp(`^configured by REDIS_URL: \\d+\\.\\d+\\.\\d+${warning}$`))
})

it('refuses a Redis that evicts entries', async () => {
  const redis = connectRedis(server.url, 'worker')
  await redis.config('SET', 'maxmemory-policy', 'allkeys-lru')
  const { ok, found } = await redisFinding(server.url)
  await redis.config('SET', 'maxmemory-policy', 'noeviction')
  redis.disconnect()
  expect(ok).toBe(false)
  expect(found).toContain('maxmemory-policy allkeys-lru loses executions, set noeviction')
})

it('refuses an address where no Redis answers, with the reason', async () => {
  const { ok, found } = await redisFinding('redis://127.0.0.1:9')
  expect(ok).toBe(false)
  expect(found).toMatch(/^configured by REDIS_URL: no answer within 5 s \(.*ECONNREFUSED.*\)$/)
})
