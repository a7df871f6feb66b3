import { describe, expect, it } from 'vitest'
import { chargeOf, largestCharge, pricesSchema, unmeasuredUsage } from './index.ts'

const limits = { hard_timeout_ms: 30_000, cpus: 0.5, memory_mib: 512, cpu_time_ms: undefined }
const prices = pricesSchema.parse({
  default: { call: 0.1, cpu_second: 0.2 },
  gvisor: { cpu_second: 0.000_001_4, gb_second: 0.001 },
})
const run = { began: true, backend: 'gvisor', usage: null, wallMs: 10_000 }
const measured = { ...unmeasuredUsage(2000), cpu_ms: 1500.2 }

describe('the charge of an attempt', () => {
  it('is at most all CPUs until the hard deadline, at the highest prices', () => {
    // 15 s of CPU at 0.2, one call at 0.1, 30 s of half a GB at 0.001.
    expect(largestCharge(limits, prices)).toEqual({ cpuMs: 15_000, gbSeconds: 15, cost: 3_115_000 })
  })

  it('is bounded by the CPU time limit', () => {
    expect(largestCharge({ ...limits, cpu_time_ms: 4000 }, {}).cpuMs).toBe(4000)
  })

  it('is the measured use, rounded up to whole milliseconds and micro-units', () => {
    // 1.501 s × 1.4 µ = 2.1014 µ, and 2 s of half a GB = 1,000 µ.
    expect(chargeOf({ ...run, usage: measured }, limits, prices)).toEqual({
      cpuMs: 1501,
      gbSeconds: 1,
      cost: 1003,
    })
  })

  it('is run time × cpus without a measurement', () => {
    expect(chargeOf({ ...run, usage: unmeasuredUsage(2000) }, limits, prices).cpuMs).toBe(1000)
    expect(chargeOf(run, limits, prices).cpuMs).toBe(5000)
  })

  it('is never more than the reservation', () => {
    const late = { ...unmeasuredUsage(30_400), cpu_ms: 61_000 }
    const most = largestCharge(limits, prices)
    const charged = chargeOf({ ...run, usage: late }, limits, prices)
    expect(charged.cpuMs).toBe(most.cpuMs)
    expect(charged.cost).toBeLessThanOrEqual(most.cost)
    expect(chargeOf({ ...run, wallMs: 3_600_000 }, limits, prices).cpuMs).toBe(15_000)
  })

  it('is only the call when no user code began', () => {
    expect(chargeOf({ ...run, began: false, backend: 'docker' }, limits, prices)).toEqual({
      cpuMs: 0,
      gbSeconds: 0,
      cost: 100_000,
    })
  })

  it('is exact for decimal prices', () => {
    const tenth = pricesSchema.parse({ default: { call: 0.1, cpu_second: 0.2 } })
    const second = { ...unmeasuredUsage(1000), cpu_ms: 1000 }
    expect(chargeOf({ ...run, usage: second, backend: 'x' }, limits, tenth).cost).toBe(300_000)
  })

  it('is zero without prices', () => {
    expect(chargeOf({ ...run, usage: measured }, limits, {}).cost).toBe(0)
  })
})

describe('prices', () => {
  it('refuse unknown keys and negative amounts', () => {
    expect(pricesSchema.safeParse({ docker: { cpu: 1 } }).success).toBe(false)
    expect(pricesSchema.safeParse({ docker: { call: -1 } }).success).toBe(false)
  })
})
