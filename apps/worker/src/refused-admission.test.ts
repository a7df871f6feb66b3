import type { Refused } from '@cofferdam/admission'
import { executionRequestSchema, type CapsUse } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { expect, it } from 'vitest'
import { afterRefusal, capMessage } from './refused-admission.ts'
import type { WorkerDeps } from './worker-deps.ts'

const resets_at = '2026-11-21T00:00:00.000Z'
const caps: CapsUse = {
  tenant_daily: { used: 3, limit: 3, resets_at },
  agent_hourly: { used: 1, limit: 9, resets_at },
  tenant_daily_cpu: { used: 10, limit: 12.5, resets_at },
  tenant_daily_cost: { used: 1_000_000, limit: 2_500_000, resets_at },
}

it('states the remainder of a cap in the units of `cofferdam caps set`', () => {
  expect(capMessage('tenant_daily_cost', caps, resets_at)).toContain('than the 1.5 units that are left')
  expect(capMessage('tenant_daily_cpu', caps, resets_at)).toContain('than the 2.5 s that are left')
  expect(capMessage('tenant_daily', caps, resets_at)).toBe(
    'The tenant_daily cap is reached; it resets at 2026-11-21T00:00:00.000Z.',
  )
})

const NOW_MS = Date.parse('2026-11-20T12:00:00.000Z')
const HOUR_MS = 3_600_000

/** How an execution with `on_cap: defer` waits, and for how long. */
async function waitAfter(dimension: Refused['dimension'], resetsInMs: number, more: Partial<Refused> = {}) {
  const request = executionRequestSchema.parse({
    tenant_id: 't',
    agent_id: 'a',
    on_cap: 'defer',
    limits: { hard_timeout_ms: 2000 },
    program: { type: 'script', language: 'python', source: '' },
  })
  const wide = {
    ...caps,
    tenant_daily_cpu: { used: 9_999, limit: 10_000, resets_at },
    tenant_daily_cost: { used: 1e12, limit: 1e12, resets_at },
  }
  const refused: Refused = {
    admitted: false,
    dimension,
    resetsAtMs: NOW_MS + resetsInMs,
    killSwitch: false,
    caps: wide,
    ...more,
  }
  const taken = { request, nowMs: () => NOW_MS } as unknown as Taken
  const deps = { prices: {}, mayRetryCheck: async () => false } as unknown as WorkerDeps
  const decision = await afterRefusal(taken, refused, { retentionDays: 30 }, deps)
  if (decision.next !== 'requeue' || decision.back.waits === 'not') throw new Error('it does not wait')
  return { waits: decision.back.waits, ms: decision.back.untilMs - NOW_MS }
}

it.each(['agent_hourly', 'tenant_daily_cpu', 'tenant_daily_cost'] as const)(
  'lets only the execution wait that the %s cap refused, for at most five minutes',
  async (dimension) => {
    const long = await waitAfter(dimension, HOUR_MS)
    expect(long.waits).toBe('alone')
    expect(long.ms).toBeGreaterThanOrEqual(300_000)
    expect(long.ms).toBeLessThanOrEqual(301_000)
    const short = await waitAfter(dimension, 1000)
    expect(short.ms).toBeGreaterThanOrEqual(1000)
    expect(short.ms).toBeLessThanOrEqual(2000)
  },
)

it.each(['tenant_daily', 'tenant_rate'] as const)(
  'parks the tenant until the reset of the %s cap, which admits none of its executions',
  async (dimension) => {
    const { waits, ms } = await waitAfter(dimension, HOUR_MS)
    expect(waits).toBe('tenant')
    expect(ms).toBeGreaterThanOrEqual(HOUR_MS)
  },
)
