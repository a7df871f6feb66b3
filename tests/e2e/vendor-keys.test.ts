/** A worker's vendor keys are nowhere else: no sandbox, log, span, audit row or result, and not in Redis. */
import { mkdtemp, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { ExecutionResult } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { EXAMPLE_SECRETS, startAgentcoreDouble } from '@cofferdam/backend-agentcore/double'
import { startAzureDouble } from '@cofferdam/backend-azure/double'
import { startE2bDouble } from '@cofferdam/backend-e2b/double'
import { NODE } from '@cofferdam/backend-remote/double'
import { startKubernetesDouble } from '@cofferdam/backend-kubernetes/double'
import { startReceiver, type Receiver } from '../../libs/telemetry/test/otlp-receiver.ts'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'

const withBwrap = needs('bwrap')
const BACKENDS = ['agentcore', 'azure', 'e2b', 'kubernetes'] as const
/** Prints the text backwards, so that no redactor can hide a key. */
const LOOK = `
import glob, os
seen = [repr(sorted(os.environ.items()))]
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/tmp/*') + glob.glob(os.path.expanduser('~/.*')):
    try: seen.append(path + ' ' + open(path, 'rb').read(100_000).decode('latin-1'))
    except OSError: pass
print('\\n'.join(seen)[:100_000][::-1])`

withBwrap.describe('keys of vendors', { timeout: 240_000 }, () => {
  const secrets = {
    'the secret key of AWS': EXAMPLE_SECRETS.secretAccessKey,
    'the key id of AWS': EXAMPLE_SECRETS.accessKeyId,
    'the secret of Azure’s names': 'azure-names-canary-0123456789abcdef',
    'the token of Kubernetes': 'kubernetes-token-canary-0123456789',
    'the secret of Kubernetes’ sessions': 'kubernetes-sessions-canary-0123456789',
  } as Record<string, string>
  let fleet: Fleet
  let receiver: Receiver
  let worker: FleetWorker
  let doubles: AsyncDisposableStack

  beforeAll(async () => {
    doubles = new AsyncDisposableStack()
    ;[fleet, receiver] = await Promise.all([startFleet(), startReceiver()])
    const agentcore = doubles.use(await startAgentcoreDouble())
    const azure = doubles.use(
      await startAzureDouble({ pools: [{ name: 'custom', kind: 'CustomContainer' }] }),
    )
    const e2b = doubles.use(await startE2bDouble())
    const cluster = doubles.use(
      await startKubernetesDouble({ replicas: 1, token: secrets['the token of Kubernetes'] ?? '' }),
    )
    secrets['the key of E2B'] = e2b.apiKey
    secrets['the header of Azure’s identity'] = azure.identity.settings.identityHeader
    const folder = await mkdtemp(path.join(fleet.dataDir, 'config-'))
    const file = async (name: string, text = ''): Promise<string> => {
      await writeFile(path.join(folder, name), text)
      return path.join(folder, name)
    }
    const backends = {
      agentcore: {
        region: 'eu-central-1',
        endpoint: agentcore.origin,
        credentials_file: await file(
          'aws',
          `[default]\naws_access_key_id=${EXAMPLE_SECRETS.accessKeyId}\naws_secret_access_key=${EXAMPLE_SECRETS.secretAccessKey}\n`,
        ),
        interpreters: { 'internal-only': 'internal-0123456789' },
        node: NODE,
      },
      azure: {
        enabled: true,
        container_endpoint: azure.endpoint('custom'),
        identifier_secret_file: await file('names', secrets['the secret of Azure’s names']),
        credentials: ['managed-identity'],
        identity_endpoint: azure.identityEndpoint,
        identity_header_file: await file('header', azure.identity.settings.identityHeader),
      },
      e2b: {
        api_key_file: await file('e2b', e2b.apiKey),
        api_url: e2b.origin,
        sandbox_url: e2b.origin,
        node: NODE,
      },
      kubernetes: {
        api_server: cluster.origin,
        token_file: await file('token', secrets['the token of Kubernetes']),
        session_secret_file: await file('sessions', secrets['the secret of Kubernetes’ sessions']),
      },
    }
    await fleet.createTenant('acme', { caps: { tenant_daily: 1000, agent_hourly: 1000 } })
    worker = await fleet.startWorker({
      COFFERDAM_CONFIG: await file('cofferdam.config.yaml', JSON.stringify({ backends })),
      COFFERDAM_LOG_LEVEL: 'debug',
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      COFFERDAM_TRACE_SAMPLE_RATIO: '1',
    })
  })
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]()
    await doubles?.[Symbol.asyncDispose]()
    await receiver?.close()
  })

  const look = (backend: string): Promise<ExecutionResult> =>
    fleet.client.run(
      {
        tenant_id: 'acme',
        agent_id: 'a',
        backend,
        program: { type: 'script', language: 'python', source: LOOK },
        session: { key: 'k', scope: 'interpreter' },
        env: { MARK: 'a-mark-of-the-environment' },
      },
      { timeoutMs: 90_000 },
    )

  it('are in no sandbox, log, span, audit row, result or Redis key, also when vendors fail', async () => {
    const results = [...(await Promise.all(BACKENDS.map(look))), ...(await Promise.all(BACKENDS.map(look)))]
    const backwards = results.map(({ stdout }) => Array.from(stdout).toReversed().join(''))
    for (const [at, text] of backwards.entries()) {
      expect(results[at]).toMatchObject({ ok: true })
      expect(text).toContain('a-mark-of-the-environment')
    }
    const kept = await redisText(fleet.redisUrl)
    for (const backend of BACKENDS) expect(kept).toContain(`session:${backend}:k`)
    await doubles[Symbol.asyncDispose]()
    const failed = await Promise.all(BACKENDS.map(look))
    for (const result of failed) expect(result).toMatchObject({ ok: false })
    await expect
      .poll(() => receiver.bodies.some(({ path: to }) => to === '/v1/traces'), { timeout: 30_000 })
      .toBe(true)

    const { rows } = await fleet.store.listAudit({ tenantId: 'acme', limit: 500 })
    expect(rows.map(({ backend }) => backend)).toEqual(expect.arrayContaining([...BACKENDS]))
    const places: Record<string, string> = {
      sandbox: backwards.join('\n'),
      log: worker.log(),
      span: receiver.bodies.map(({ body }) => body.toString('latin1')).join('\n'),
      'audit row': JSON.stringify(rows),
      result: JSON.stringify([results, failed]),
      Redis: kept + (await redisText(fleet.redisUrl)),
    }
    for (const [place, text] of Object.entries(places)) {
      expect(text.length, place).toBeGreaterThan(100)
      for (const [what, secret] of Object.entries(secrets))
        expect(text.includes(secret), `${what} stands in a ${place}`).toBe(false)
    }
  })
})

/** Every key of a Redis with its whole content. */
async function redisText(url: string): Promise<string> {
  const redis = connectRedis(url, 'worker')
  onTestFinished(() => redis.disconnect())
  const texts: string[] = []
  for (const key of await redis.keys('*')) {
    const read: Record<string, () => Promise<unknown>> = {
      string: () => redis.get(key),
      hash: () => redis.hgetall(key),
      list: () => redis.lrange(key, 0, -1),
      set: () => redis.smembers(key),
      zset: () => redis.zrange(key, '0', '-1'),
      stream: () => redis.xrange(key, '-', '+'),
    }
    texts.push(key, JSON.stringify(await read[await redis.type(key)]?.()))
  }
  return texts.join('\n')
}
