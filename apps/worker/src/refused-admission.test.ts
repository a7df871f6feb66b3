import type { CapsUse } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { capMessage } from './refused-admission.ts'

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
