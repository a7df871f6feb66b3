/** The API started by `runApi`, as `cofferdam up` does it, and as a separate process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort, isolatedRedis } from '@cofferdam/embedded/testing'
import { createStore } from '@cofferdam/store'
import { createTestDatabase, PATIENT_TIMEOUTS } from '@cofferdam/store/testing'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { loadConfig, runApi } from '../src/index.ts'
import { execution } from './scene.ts'

const MAIN = fileURLToPath(new URL('../src/main.ts', import.meta.url))

const owned = new AsyncDisposableStack()
let env: Record<string, string>
let key: string
beforeAll(async () => {
  const dataDir = owned.adopt(await mkdtemp(join(tmpdir(), 'cofferdam-api-')), (dir) =>
    rm(dir, { recursive: true, force: true }),
  )
  const [redis, database] = await Promise.all([isolatedRedis(), createTestDatabase()])
  owned.defer(() => redis.stop())
  owned.defer(() => database.drop())
  env = {
    REDIS_URL: redis.url,
    DATABASE_URL: database.url,
    COFFERDAM_DATA_DIR: dataDir,
    COFFERDAM_PORT: '0',
    COFFERDAM_LOG_LEVEL: 'warn',
    COFFERDAM_DRAIN_MS: '5000',
  }
  await using store = await createStore({
    databaseUrl: database.url,
    blobDir: join(dataDir, 'blobs'),
    timeouts: PATIENT_TIMEOUTS,
  })
  key = (await store.keys.create('admin', 'test')).key
})
afterAll(() => owned.disposeAsync())

describe('runApi', () => {
  it('serves until it is closed, and a second close does nothing', async () => {
    const api = await runApi(loadConfig(env))
    owned.defer(() => api.close())
    expect(api.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    // The first connections may take longer than a probe waits.
    await vi.waitFor(async () => expect((await fetch(`${api.url}/readyz`)).status).toBe(200), 20_000)
    const made = await fetch(`${api.url}/v1/executions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(execution('x')),
    })
    expect(made.status).toBe(202)
    const metrics = await (await fetch(`${api.url}/metrics`)).text()
    expect(metrics).toMatch(/cofferdam_queue_depth\{[^}]*cofferdam_lane="interactive"[^}]*\} 1/)
    await Promise.all([api.close(), api.close()])
    await expect(fetch(`${api.url}/healthz`)).rejects.toThrow()
  })

  it('serves metrics and probes without a key on a separate port', async () => {
    const port = await freePort()
    const api = await runApi(loadConfig({ ...env, COFFERDAM_METRICS_PORT: String(port) }))
    const get = async (path: string) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`)
      return [response.status, await response.text()] as const
    }
    expect((await get('/metrics'))[1]).toMatch(/^cofferdam_fleet_workers\{cofferdam_state="alive"\} 0$/m)
    expect((await get('/healthz'))[0]).toBe(200)
    // A probe that takes more than a second counts as failed, and on a busy machine one may.
    await vi.waitFor(async () => expect((await get('/readyz'))[0]).toBe(200), 20_000)
    expect((await get('/v1/queue'))[0]).toBe(404)
    await api.close()
    await expect(get('/healthz')).rejects.toThrow()
  })

  it('records the request as the parent of the enqueue, in the caller’s trace', async () => {
    const { startTelemetry } = await import('@cofferdam/telemetry')
    const { redactSecrets } = await import('../src/redaction.ts')
    await using telemetry = await startTelemetry({ service: 'test', version: '0', redact: redactSecrets })
    const api = await runApi(loadConfig(env), { telemetry })
    const traceId = 'fe'.repeat(16)
    await fetch(`${api.url}/v1/executions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        traceparent: `00-${traceId}-${'cd'.repeat(8)}-01`,
      },
      body: JSON.stringify(execution('x')),
    })
    await api.close()
    const spans = telemetry.recentSpans(traceId)
    expect(spans.map((span) => span.name).sort()).toEqual(['POST /v1/executions', 'send interactive'])
    const server = spans.find((span) => span.name === 'POST /v1/executions')
    expect(spans.find((span) => span.name === 'send interactive')?.parent_span_id).toBe(server?.span_id)
    expect(server?.parent_span_id).toBe('cd'.repeat(8))
  })

  it('rejects when the port is in use, and leaves nothing open', async () => {
    const first = await runApi(loadConfig(env))
    const { port } = new URL(first.url)
    await expect(runApi(loadConfig({ ...env, COFFERDAM_PORT: port }))).rejects.toThrow(/EADDRINUSE/)
    await first.close()
  })
})

describe('the API process', () => {
  const start = (args: string[] = [], more: Record<string, string> = {}) => {
    const child = spawn(process.execPath, [MAIN, ...args], {
      env: { PATH: process.env['PATH'] ?? '', ...env, ...more },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const seen = { out: '', err: '' }
    child.stdout.on('data', (chunk: Buffer) => (seen.out += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (seen.err += chunk.toString()))
    return { child, seen, exited: once(child, 'close').then(([code]) => code as number | null) }
  }

  it('drains on SIGTERM: it answers a waiting request and exits with 0', async () => {
    const { child, seen, exited } = start()
    await vi.waitFor(() => expect(seen.out).toMatch(/listens on http/), 30_000)
    const url = /http:\S+/.exec(seen.out)?.[0] ?? ''
    const waiting = fetch(`${url}/v1/executions?wait=60s`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(execution('x', { agent_id: 'sigterm' })),
    })
    // Wait for this execution, not for one of an earlier test. No worker runs, so none of them ever ends.
    await vi.waitFor(async () => {
      const listed = await fetch(`${url}/v1/executions?agent_id=sigterm&status=live`, {
        headers: { authorization: `Bearer ${key}` },
      })
      expect(await listed.text()).toContain('exe_')
    }, 20_000)
    child.kill('SIGTERM')
    expect((await waiting).status).toBe(202)
    expect(await exited).toBe(0)
  })

  it('prints every problem of its configuration and exits with 1', async () => {
    const { seen, exited } = start([], { REDIS_URL: 'localhost', COFFERDAM_PROT: '1' })
    expect(await exited).toBe(1)
    expect(seen.err).toMatch(/REDIS_URL: expected a URL/)
    expect(seen.err).toMatch(/COFFERDAM_PROT: no such variable; did you mean COFFERDAM_PORT\?/)
    expect(seen.err).not.toMatch(/node_modules|at .*\.ts/)
  })

  it('prints its configuration with --print-config and exits with 0', async () => {
    const { seen, exited } = start(['--print-config'])
    expect(await exited).toBe(0)
    expect(seen.out).toMatch(/COFFERDAM_LOG_LEVEL="warn" +# environment/)
  })
})
