/**
 * The backend `microvm` as a caller meets it: a real worker, and a machine that is emulated without hardware.
 */
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'

const { describe, it } = needs('microvm')

const SOURCE = `import os
open("kernel.txt", "w").write(os.uname().release)
{"uid": os.getuid(), "interfaces": sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else []}`

const script = (tenantId: string, extra: object = {}) => ({
  tenant_id: tenantId,
  agent_id: 'agent',
  program: { type: 'script' as const, language: 'python' as const, source: SOURCE },
  artifacts: ['*.txt'],
  ...extra,
})

describe('a worker with virtual machines', () => {
  let fleet: Fleet
  beforeAll(async () => {
    fleet = await startFleet()
    await fleet.createTenant('careful')
    await fleet.createTenant('trying', { policy: { allow_emulation: true } })
    await fleet.createTenant('strict', { policy: { allow_emulation: true, min_isolation: 'microvm' } })
    await fleet.runWorker({ COFFERDAM_BACKENDS: 'microvm' })
  })
  afterAll(() => fleet?.[Symbol.asyncDispose]())

  it('gives an emulated one only to tenants that allow it, and to none that demands a real one', async () => {
    // The worker offers the backend as soon as it has made its template.
    await expect
      .poll(() => fleet.client.run(script('trying')), { timeout: 170_000, interval: 1000 })
      .toMatchObject({ ok: true, backend: 'microvm', artifacts: [{ path: 'kernel.txt' }] })
    const { isolation, value } = await fleet.client.run(script('trying'))
    expect(value).toEqual({ uid: 65_534, interfaces: [] })
    const refused = { ending: 'provisioning', reason: 'isolation_unavailable', backend: null }
    const expected = isolation === 'microvm' ? { ok: true, isolation: 'microvm' } : refused
    expect(['microvm', 'microvm-emulated']).toContain(isolation)
    expect(await fleet.client.run(script('careful'))).toMatchObject(expected)
    expect(await fleet.client.run(script('strict'))).toMatchObject(expected)
    expect(await fleet.client.run(script('careful', { backend: 'microvm' }))).toMatchObject(expected)
  })
})
