/** Two writers of one tenant's settings. The stores are plain objects, so the test decides the timing. */
import { DEFAULT_TENANT_CAPS, type TenantCaps } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { createCapsWriter } from './caps-writer.ts'

const SEPARATE = { run_sessions: false }
const OFF: TenantCaps = { ...DEFAULT_TENANT_CAPS, tenant_daily: 0 }

it('does not write old caps over a kill switch that was set after it had read them', async () => {
  let inPostgres: TenantCaps = DEFAULT_TENANT_CAPS
  const live = [{ rev: 'first', daily: DEFAULT_TENANT_CAPS.tenant_daily }]
  let reads = 0
  const write = createCapsWriter({
    admission: {
      capsRev: async () => live.at(-1)?.rev ?? '',
      setCapsSince: async (_tenant, caps, rev) => {
        if (live.at(-1)?.rev !== rev) return false
        live.push({ rev: `worker ${live.length}`, daily: caps.tenant_daily })
        return true
      },
    },
    producer: { setTenantLimits: async () => undefined, setRunSessions: async () => undefined },
    load: async () => {
      const read = { caps: inPostgres, policy: SEPARATE }
      reads += 1
      // The API commits and writes the kill switch right after this worker's first read from Postgres.
      if (reads === 1) {
        inPostgres = OFF
        live.push({ rev: 'api', daily: 0 })
      }
      return read
    },
  })
  await write('t')
  expect(live.map(({ daily }) => daily)).toEqual([DEFAULT_TENANT_CAPS.tenant_daily, 0, 0])
})

it("reads again if the scheduler's limits changed while it wrote them", async () => {
  let inPostgres: TenantCaps = DEFAULT_TENANT_CAPS
  const limits: (number | null)[] = []
  const write = createCapsWriter({
    admission: { capsRev: async () => '', setCapsSince: async () => true },
    producer: {
      setTenantLimits: async (_tenant, { concurrency }) => {
        if (limits.length === 0) inPostgres = { ...DEFAULT_TENANT_CAPS, concurrency: 3 }
        limits.push(concurrency ?? null)
      },
      setRunSessions: async () => undefined,
    },
    load: async () => ({ caps: inPostgres, policy: SEPARATE }),
  })
  await write('t')
  expect(limits).toEqual([DEFAULT_TENANT_CAPS.concurrency, 3])
})

it('reads again if sessions of runs were switched while it wrote them', async () => {
  let inPostgres = true
  const written: boolean[] = []
  const write = createCapsWriter({
    admission: { capsRev: async () => '', setCapsSince: async () => true },
    producer: {
      setTenantLimits: async () => undefined,
      setRunSessions: async (_tenant, shares) => {
        inPostgres = false
        written.push(shares)
      },
    },
    load: async () => ({ caps: DEFAULT_TENANT_CAPS, policy: { run_sessions: inPostgres } }),
  })
  await write('t')
  expect(written).toEqual([true, false])
})
