/** The scale subresource of a warm pool, at the double's API server. */
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startKubernetesDouble, type KubernetesDouble } from '../double/kubernetes-double.ts'
import { createWarmPool } from '../src/warm-pool.ts'
import { poolUrl } from './cluster.ts'

needs('bwrap').describe('a warm pool', () => {
  let double: KubernetesDouble
  beforeAll(async () => {
    double = await startKubernetesDouble({ replicas: 0 })
  })
  afterAll(() => double[Symbol.asyncDispose]())

  const pool = (more = {}) => createWarmPool({ api_server: double.origin, token_file: null, ...more })

  it('is read and scaled by its scale subresource alone', async () => {
    const from = double.requests.length
    expect(await pool().replicas()).toBe(0)
    expect(await pool().scale(1)).toBe(1)
    expect(await pool().replicas()).toBe(1)
    const asked = double.requests.slice(from)
    expect(asked).toHaveLength(3)
    expect(asked.every((path) => path.endsWith('/sandboxwarmpools/cofferdam/scale'))).toBe(true)
    const answer = await fetch(poolUrl(double))
    expect(await answer.json()).toMatchObject({
      spec: { replicas: 1, sandboxTemplateRef: { name: 'cofferdam' } },
    })
    expect(await pool().scale(0)).toBe(0)
  })

  it('answers null for a pool that does not exist', async () => {
    expect(await pool({ warm_pool: 'other' }).replicas()).toBe(null)
    expect(await pool({ warm_pool: 'other' }).scale(1)).toBe(null)
  })

  it('says what the API server refuses, and changes nothing', async () => {
    await expect(pool().scale(-1)).rejects.toMatchObject({
      code: 'sandbox_open_failed',
      details: { status: 422 },
    })
    double.fault({ unauthorized_patches: 2 })
    await expect(pool().scale(1)).rejects.toMatchObject({ code: 'backend_unavailable' })
    expect(await pool().replicas()).toBe(0)
  })

  it('sends a request once more when the credentials were replaced', async () => {
    double.fault({ unauthorized_patches: 1 })
    expect(await pool().scale(0)).toBe(0)
  })
})
