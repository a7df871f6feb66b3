/** Polyclaw's switch, from the API to the sandbox: while it is off, nothing runs there. */
import { mkdtemp, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { RunningApi } from '@cofferdam/api'
import type { ExecutionRequestInput, ExecutionResult } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAzureDouble, type AzureDouble } from '@cofferdam/backend-azure/double'
import { startFleet, type Fleet } from '../fleet.ts'

const withBwrap = needs('bwrap')

withBwrap.describe("Polyclaw's switch", () => {
  let fleet: Fleet
  let double: AzureDouble
  let api: RunningApi
  let key: string

  async function call(
    method: 'GET' | 'POST',
    route: string,
    body?: object,
  ): Promise<Record<string, unknown>> {
    const response = await fetch(`${api.url}/api/sandbox/${route}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    expect(response.status).toBe(200)
    return (await response.json()) as Record<string, unknown>
  }
  const run = (more: Partial<ExecutionRequestInput> = {}): Promise<ExecutionResult> =>
    fleet.client.run(
      {
        tenant_id: 'acme',
        agent_id: 'a',
        backend: 'azure',
        program: { type: 'script', language: 'python', source: 'print(6 * 7)' },
        ...more,
      },
      { timeoutMs: 60_000 },
    )
  const used = async (): Promise<number> => {
    const { rows } = await fleet.store.listAudit({ tenantId: 'acme', limit: 100 })
    return rows.filter((row) => row.quota_charged).length
  }

  beforeAll(async () => {
    ;[fleet, double] = await Promise.all([
      startFleet({ ownPostgres: true }),
      startAzureDouble({
        pools: [
          { name: 'python', kind: 'PythonLTS' },
          { name: 'other', kind: 'PythonLTS' },
        ],
      }),
    ])
    await fleet.createTenant('acme', { caps: { tenant_daily: 1000, agent_hourly: 1000 } })
    key = (await fleet.store.keys.create('admin', 'test')).key
    api = await fleet.runApi({ COFFERDAM_LOG_LEVEL: 'silent' })
    await call('POST', 'config', { session_pool_endpoint: double.endpoint('python'), sync_data: false })
    const folder = await mkdtemp(path.join(fleet.dataDir, 'config-'))
    await writeFile(path.join(folder, 'header'), double.identity.settings.identityHeader)
    await writeFile(path.join(folder, 'secret'), 'x'.repeat(48))
    const azure = {
      enabled: true,
      identifier_secret_file: path.join(folder, 'secret'),
      credentials: ['managed-identity'],
      identity_endpoint: double.identityEndpoint,
      identity_header_file: path.join(folder, 'header'),
      python: '/usr/bin/python3',
    }
    const file = path.join(folder, 'cofferdam.config.yaml')
    await writeFile(file, JSON.stringify({ backends: { process: {}, azure } }))
    await fleet.runWorker({ COFFERDAM_CONFIG: file, COFFERDAM_SLOTS: '2' })
  })
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]()
    await double?.[Symbol.asyncDispose]()
  })

  it('is off by default, and then requests for the sandbox are refused uncharged', async () => {
    expect(await call('GET', 'config')).toMatchObject({ enabled: false })
    for (const more of [{}, { agent_id: 'cofferdam-sandbox-test', idempotency_key: 'sandbox-test-1' }])
      expect(await run(more)).toMatchObject({
        ok: false,
        ending: 'provisioning',
        reason: 'sandbox_disabled',
        error: 'SandboxProvisioning',
        error_message: 'No backend can run this: azure is disabled in the sandbox configuration.',
      })
    const { rows } = await fleet.store.listAudit({ tenantId: 'acme', limit: 1 })
    expect(rows[0]).toMatchObject({ ending: 'provisioning', backend: null, quota_charged: false })
    expect(await used()).toBe(0)
    expect(double.pool('python').allocated).toBe(0)
  })

  it('does not affect requests for other backends', async () => {
    expect(await run({ backend: 'auto' })).toMatchObject({ ok: true, backend: 'process', stdout: '42\n' })
    expect(double.pool('python').allocated).toBe(0)
  })

  it('lets its own test run, so that an operator can try it before turning it on', async () => {
    expect(await call('POST', 'test', { command: 'echo works' })).toMatchObject({
      success: true,
      stdout: 'works\n',
    })
    expect(await run()).toMatchObject({ ok: false, ending: 'provisioning' })
  })

  it('applies to the next execution without a restart of the worker, and so does another pool', async () => {
    await call('POST', 'config', { enabled: true })
    expect(await run()).toMatchObject({ ok: true, backend: 'azure', stdout: '42\n' })
    await call('POST', 'config', { enabled: false })
    expect(await run()).toMatchObject({ ok: false, ending: 'provisioning' })
    const before = double.pool('python').allocated
    await call('POST', 'config', { enabled: true, session_pool_endpoint: double.endpoint('other') })
    expect(await run()).toMatchObject({ ok: true, stdout: '42\n' })
    expect([double.pool('python').allocated, double.pool('other').allocated]).toEqual([before, 1])
    await call('POST', 'config', { enabled: false, session_pool_endpoint: '' })
    expect((await run()).error_message).toContain('has no pool')
    await call('POST', 'config', { enabled: true, session_pool_endpoint: double.endpoint('python') })
    expect(await run()).toMatchObject({ ok: true })
  })

  it('is off if its state cannot be read', async () => {
    await fleet.stopPostgres()
    try {
      expect(await run()).toMatchObject({
        ok: false,
        reason: 'sandbox_disabled',
        error_message: expect.stringContaining('cannot be read') as string,
      })
    } finally {
      await fleet.startPostgres()
    }
  })
})
