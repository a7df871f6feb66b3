/** Two writers of one tenant's caps. The parts around the writer are plain objects whose timing the test decides. */
import { DEFAULT_TENANT_CAPS, type TenantCaps } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { createCapsWriter } from '../src/write-caps.ts'

it('does not put old caps back over a kill switch that fell while it wrote', async () => {
  let inPostgres: TenantCaps = DEFAULT_TENANT_CAPS
  const live: (number | null)[] = []
  const write = createCapsWriter({
    admission: {
      setCaps: async (_tenant, caps) => {
        // The API commits and writes the kill switch; this worker's older write arrives after it.
        if (live.length === 0) {
          inPostgres = { ...DEFAULT_TENANT_CAPS, tenant_daily: 0 }
          live.push(0)
        }
        live.push(caps.tenant_daily)
      },
    },
    producer: { setTenantLimits: async () => undefined },
    loadCaps: async () => inPostgres,
  })
  await write('t', inPostgres)
  expect(live).toEqual([0, null, 0])
})
