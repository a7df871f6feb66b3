import { describe, expect, it } from 'vitest'
import { type Budget, createBudgets, rateLimitHeaders } from './rate-limit-headers.ts'

const NOW = Date.parse('2026-11-20T12:30:00.400Z')
const budget: Budget = {
  tenant_daily: { used: 12, limit: 1000, resets_at: '2026-11-21T00:00:00.000Z' },
  agent_hourly: { used: 3, limit: 100, resets_at: '2026-11-20T13:00:00.000Z' },
}

describe('the RateLimit headers', () => {
  it('name each policy with quota and window, and show what is left and the seconds until the reset', () => {
    expect(rateLimitHeaders(budget, NOW)).toEqual({
      'ratelimit-policy': '"tenant-daily";q=1000;w=86400, "agent-hourly";q=100;w=3600',
      ratelimit: '"tenant-daily";r=988;t=41400, "agent-hourly";r=97;t=1800',
    })
  })

  it('count reserved amounts as used, and name units other than requests', () => {
    const day = budget.tenant_daily.resets_at
    const headers = rateLimitHeaders(
      {
        tenant_daily: budget.tenant_daily,
        tenant_daily_cpu: { used: 10.25, reserved: 30, limit: 60, resets_at: day },
        tenant_daily_cost: { used: 0, reserved: 5, limit: 1_000_000_000_000_000, resets_at: day },
      },
      NOW,
    )
    expect(headers['ratelimit-policy']).toBe(
      '"tenant-daily";q=1000;w=86400, "tenant-daily-cpu";q=60;qu="cpu-seconds";w=86400, ' +
        '"tenant-daily-cost";q=999999999999999;qu="micro-units";w=86400',
    )
    expect(headers['ratelimit']).toBe(
      '"tenant-daily";r=988;t=41400, "tenant-daily-cpu";r=19;t=41400, ' +
        '"tenant-daily-cost";r=999999999999995;t=41400',
    )
  })

  it('never show a negative amount, nor a window that is over', () => {
    const over = {
      tenant_daily: { used: 9, limit: 0, resets_at: '2026-11-21T00:00:00.000Z' },
      agent_hourly: { used: 9, limit: 10, resets_at: '2026-11-20T12:00:00.000Z' },
    }
    expect(rateLimitHeaders(over, NOW)).toEqual({
      'ratelimit-policy': '"tenant-daily";q=0;w=86400',
      ratelimit: '"tenant-daily";r=0;t=41400',
    })
    expect(rateLimitHeaders(null, NOW)).toEqual({})
  })
})

describe('budgets', () => {
  it('are read once a second per tenant and agent, and are null when the read fails', async () => {
    let now = 0
    const asked: string[] = []
    const usage = async (tenantId: string, agentId?: string) => {
      asked.push(`${tenantId} ${agentId}`)
      if (tenantId === 'away') throw new Error('Redis is away')
      return budget as never
    }
    const budgets = createBudgets({ admission: { usage }, now: () => now })
    await Promise.all([budgets.read('t', 'a'), budgets.read('t', 'a'), budgets.read('t', 'b')])
    now = 999
    expect(await budgets.read('t', 'a')).toBe(budget)
    now = 1000
    await budgets.read('t', 'a')
    expect(asked).toEqual(['t a', 't b', 't a'])
    expect(await budgets.read('away', 'a')).toBeNull()
  })
})
