import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { DEFAULT_TENANT_RULES } from '@cofferdam/contract'
import { isolatedRedis, privatePostgres } from '@cofferdam/embedded/testing'
import { connectRedis } from '@cofferdam/queue'
import { createStore, migrate } from '@cofferdam/store'
import { PATIENT_TIMEOUTS } from '@cofferdam/store/testing'
import { expect, it } from 'vitest'
import { createPolicyCache } from '../src/policy-cache.ts'

const ASKED = { tenant_id: 'acme', agent_id: 'agent-1' }

it('sees a change within a second, uses a copy while Postgres is away, or else fails closed', async () => {
  await using owned = new AsyncDisposableStack()
  const blobDir = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-policy-'))
  owned.defer(() => rm(blobDir, { recursive: true, force: true }))
  const redisServer = await isolatedRedis()
  owned.defer(() => redisServer.stop())
  const postgres = await privatePostgres()
  let running = true
  owned.defer(async () => (running ? postgres.stop() : undefined))
  await migrate(postgres.url)
  const store = owned.use(
    await createStore({ databaseUrl: postgres.url, blobDir, timeouts: PATIENT_TIMEOUTS }),
  )
  const redis = owned.adopt(connectRedis(redisServer.url, 'worker'), (connection) => connection.disconnect())

  let nowMs = Date.now()
  const changed: string[] = []
  let reads = 0
  const get = (tenantId: string) => {
    reads += 1
    return store.tenants.get(tenantId)
  }
  const cache = createPolicyCache({
    redis,
    store: { ...store, tenants: { ...store.tenants, get } },
    now: () => nowMs,
    onChange: async (tenantId) => void changed.push(tenantId),
  })
  const enabled = async () => (await cache.read(ASKED)).tenant?.sandbox_enabled

  expect(await enabled()).toBeUndefined()
  await store.tenants.create({ tenant_id: 'acme', caps: { tenant_daily: 7 } }, 'test')
  nowMs += 1000
  expect(await enabled()).toBe(true)
  expect(changed).toEqual(['acme'])

  await store.tenants.setPolicy('acme', { sandbox_enabled: false }, 'test')
  nowMs += 999
  expect(await enabled()).toBe(true)
  nowMs += 1
  const readsBefore = reads
  expect(new Set(await Promise.all(Array.from({ length: 50 }, enabled)))).toEqual(new Set([false]))
  // All of them found the same stale copy, and one read Postgres.
  expect(reads - readsBefore).toBe(1)
  expect(changed).toHaveLength(1)
  await store.tenants.setPolicy('acme', { run_sessions: true }, 'test')
  nowMs += 1000
  expect(await enabled()).toBe(false)
  expect(changed).toHaveLength(2)
  await store.tenants.setPolicy('acme', { run_sessions: false }, 'test')
  nowMs += 1000
  expect(await enabled()).toBe(false)
  expect(changed).toHaveLength(3)

  await store.templates.put(
    { template_id: 'tpl', tenant_id: 'acme', sandbox: { environment: 'internal-only' } },
    'test',
  )
  expect((await cache.read({ ...ASKED, template_id: 'tpl' })).template?.sandbox).toEqual({
    environment: 'internal-only',
  })

  const bound = { required: false, agents: { 'agent-1': 'tpl', 'agent-2': 'missing' } }
  await store.tenants.setPolicy('acme', { templates: bound }, 'test')
  nowMs += 1000
  expect(await cache.read(ASKED)).toMatchObject({ templateId: 'tpl', template: { template_id: 'tpl' } })
  expect(await cache.read({ ...ASKED, agent_id: 'agent-2', template_id: 'tpl' })).toMatchObject({
    templateId: 'missing',
    template: null,
  })
  await store.tenants.setPolicy('acme', { templates: { required: false, agents: {} } }, 'test')
  nowMs += 1000
  expect(await cache.read(ASKED)).toMatchObject({ templateId: undefined, template: null })

  await postgres.stop()
  running = false
  nowMs += 60_000
  expect(await enabled()).toBe(false)

  // A copy from an older worker, whose policies had no network, packages, commands, templates or encryption.
  const { tenant, caps } = await cache.read(ASKED)
  const { network: _n, packages: _p, commands: _c, templates: _t, encrypt_outputs: _e, ...older } = tenant!
  const copy = { policy: older, caps, template: null, at_ms: nowMs }
  await redis.hset('cfd:{acme}:policy', '', JSON.stringify(copy))
  expect((await cache.read(ASKED)).tenant).toEqual({ ...older, ...DEFAULT_TENANT_RULES })
  for (const strange of ['{"policy":{"tenant_id":3}}', 'not JSON', '[]']) {
    await redis.hset('cfd:{acme}:policy', '', strange)
    await expect(cache.read(ASKED)).rejects.toMatchObject({ code: 'store_unavailable' })
  }
  // A copy from a worker whose clock is two hours ahead. It must not count as new until this worker's clock
  // gets there.
  const ahead = { policy: tenant, caps, template: null, at_ms: nowMs + 7_200_000 }
  await redis.hset('cfd:{acme}:policy', '', JSON.stringify(ahead))
  await expect(cache.read(ASKED)).rejects.toMatchObject({ code: 'store_unavailable' })
  await redis.flushall()
  await expect(enabled()).rejects.toMatchObject({ code: 'store_unavailable' })
})
