/** The scaler of a warm pool against the Kubernetes double, which really runs its pods. */
import { startKubernetesDouble, type KubernetesDouble } from '@cofferdam/backend-kubernetes/double'
import { createWarmPool } from '@cofferdam/backend-kubernetes/warm-pool'
import { needs } from '@cofferdam/embedded/needs'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { createScaler, type Scaler, type ScalerOptions } from '../src/scale/scaler.ts'
import { spareSettingsSchema } from '../src/scale/spare-settings.ts'

const SOON = { timeout: 60_000, interval: 20 }

needs('bwrap').describe('the scaler of a warm pool', () => {
  let double: KubernetesDouble
  let scaler: Scaler
  let time: { ms: number }
  let logged: string[]
  let depth: number

  beforeEach(async () => {
    double = await startKubernetesDouble({ replicas: 1 })
    time = { ms: 0 }
    logged = []
    depth = 0
    scaler = scalerOf(double.origin)
  })
  afterEach(async () => {
    await scaler[Symbol.asyncDispose]()
    await double[Symbol.asyncDispose]()
  })

  function scalerOf(apiServer: string): Scaler {
    const log = (_: unknown, message: string): void => void logged.push(message)
    const warmPool = createWarmPool({ api_server: apiServer, token_file: null, api_timeout_ms: 1000 })
    return createScaler({
      environments: [{ id: 'env_a', pool: 'cofferdam', readDepth: async () => depth }],
      pools: [
        { name: 'cofferdam', settings: spareSettingsSchema.parse({ max: 4, hold_seconds: 60 }), warmPool },
      ],
      logger: { info: log, warn: log } as ScalerOptions['logger'],
      everyMs: null,
      now: () => time.ms,
    })
  }

  const poolUrl = (): string =>
    `${double.origin}/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/cofferdam-sandboxes/sandboxwarmpools/cofferdam`
  const pool = async (): Promise<{ spec: { replicas: number } }> =>
    (await (await fetch(poolUrl())).json()) as { spec: { replicas: number } }
  const replicas = async (): Promise<number> => (await pool()).spec.replicas
  const calls = (): number =>
    double.requests.filter((path) => path.endsWith('/sandboxwarmpools/cofferdam/scale')).length

  it('fills the pool at once when sessions arrive, and empties it slowly', async () => {
    await scaler.step()
    expect(await replicas()).toBe(2)
    depth = 3
    await scaler.step()
    expect(await replicas()).toBe(3)
    scaler.onArrival('env_a')
    await scaler.step()
    expect(await replicas()).toBe(4)
    await vi.waitFor(() => expect(double.running()).toHaveLength(4), SOON)
    depth = 0
    time.ms = 59_000
    await scaler.step()
    expect(await replicas()).toBe(4)
    time.ms = 90_000
    await scaler.step()
    expect(await replicas()).toBe(3)
    await vi.waitFor(() => expect(double.running()).toHaveLength(3), SOON)
  })

  it('reads the pool in each step, and patches it only to change it', async () => {
    await scaler.step()
    expect(calls()).toBe(2)
    await scaler.step()
    await scaler.step()
    expect(calls()).toBe(4)
  })

  it('says once that the pool is gone, and scales it again when it is back', async () => {
    const before = await pool()
    await fetch(poolUrl(), { method: 'DELETE' })
    await scaler.step()
    await scaler.step()
    expect(logged).toEqual(['a warm pool is gone'])
    const { status } = await fetch(poolUrl().replace(/\/cofferdam$/, ''), {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        ...before,
        metadata: { name: 'cofferdam' },
        spec: { ...before.spec, replicas: 0 },
      }),
    })
    expect(status).toBe(201)
    await scaler.step()
    expect(await replicas()).toBe(2)
    expect(logged).toEqual(['a warm pool is gone', 'a warm pool is scaled again'])
  })

  it('survives refusals and an API server that is away, and says each once', async () => {
    // The client repeats a refused request once, so four refusals make two steps fail.
    double.fault({ unauthorized_patches: 4 })
    await scaler.step()
    await scaler.step()
    expect(await replicas()).toBe(1)
    expect(logged).toEqual(['a warm pool could not be scaled'])
    await scaler.step()
    expect(await replicas()).toBe(2)
    expect(logged).toEqual(['a warm pool could not be scaled', 'a warm pool is scaled again'])
    await scaler[Symbol.asyncDispose]()
    // Nothing listens at port 9.
    scaler = scalerOf('http://127.0.0.1:9')
    depth = 2
    scaler.onArrival('env_a')
    await scaler.step()
    await scaler.step()
    expect(logged.slice(2)).toEqual(['a warm pool could not be scaled'])
    expect(scaler.readings()).toEqual([{ pool: 'cofferdam', spareTarget: 4, sessions: 1, depth: 2 }])
  })
})
