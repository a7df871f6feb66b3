/**
 * What an attempt may use at most, what it is charged at its end, and what that costs. Pure, so that every
 * worker that reserves, charges or cleans up computes the same numbers.
 *
 *   reserved = largestCharge(limits)  ──►  charged = chargeOf(usage, limits) ≤ reserved, always
 *
 * Cost is an integer number of micro-units. The operator who sets the prices chooses the currency.
 */
import { z } from 'zod'
import type { Limits } from './limits.ts'
import { nameSchema } from './name.ts'
import type { Usage } from './usage.ts'

/** Micro-units of one unit. */
export const MICRO = 1_000_000

/** More than a million units per call would be a mistake in any currency. */
const amount = z.number().min(0).max(1_000_000).default(0)

export const priceSchema = z.strictObject({
  call: amount.meta({ description: 'Units for each charged attempt.', example: 0.0001 }),
  cpu_second: amount.meta({ description: 'Units for a second of CPU time.', example: 0.000_02 }),
  gb_second: amount.meta({
    description: 'Units for 1,024 MiB of memory limit for a second of run time.',
    example: 0.000_003,
  }),
})
export type Price = z.infer<typeof priceSchema>

/** Prices by backend. `default` applies to all others. Without `default` they are free. */
export const pricesSchema = z.record(nameSchema, priceSchema)
export type Prices = z.infer<typeof pricesSchema>

const FREE: Price = { call: 0, cpu_second: 0, gb_second: 0 }

/** What an attempt uses of the caps, and its cost. All are integers except `gbSeconds`. */
export interface Charge {
  cpuMs: number
  gbSeconds: number
  /** Micro-units. */
  cost: number
}

type BoundingLimits = Pick<Limits, 'hard_timeout_ms' | 'cpu_time_ms' | 'cpus' | 'memory_mib'>

/**
 * The most that an attempt can be charged: all its CPUs until the hard deadline or the CPU-time limit, at the
 * highest prices.
 */
export function largestCharge(limits: BoundingLimits, prices: Prices): Charge {
  const all = [FREE, ...Object.values(prices)]
  const dearest: Price = {
    call: Math.max(...all.map((price) => price.call)),
    cpu_second: Math.max(...all.map((price) => price.cpu_second)),
    gb_second: Math.max(...all.map((price) => price.gb_second)),
  }
  return priced(mostCpuMs(limits), limits.hard_timeout_ms, limits, dearest)
}

/**
 * The charge of an attempt at its end. CPU time is as measured, or run time × `cpus` without a measurement.
 * If no user code began, only the call is charged. Never more than `largestCharge`: the platform pays for
 * what a program uses while it is being killed at its deadline.
 */
export function chargeOf(
  run: { began: boolean; backend: string | null; usage: Usage | null; wallMs: number },
  limits: BoundingLimits,
  prices: Prices,
): Charge {
  const price = (run.backend === null ? undefined : prices[run.backend]) ?? prices['default'] ?? FREE
  if (!run.began) return priced(0, 0, limits, price)
  const wallMs = Math.min(run.usage?.wall_ms ?? run.wallMs, limits.hard_timeout_ms)
  const cpuMs = run.usage?.cpu_ms ?? wallMs * limits.cpus
  return priced(Math.min(Math.ceil(cpuMs), mostCpuMs(limits)), wallMs, limits, price)
}

function mostCpuMs({
  hard_timeout_ms,
  cpus,
  cpu_time_ms = Number.POSITIVE_INFINITY,
}: BoundingLimits): number {
  return Math.ceil(Math.min(hard_timeout_ms * cpus, cpu_time_ms))
}

function priced(cpuMs: number, wallMs: number, limits: BoundingLimits, price: Price): Charge {
  const gbSeconds = (limits.memory_mib / 1024) * (wallMs / 1000)
  const units = price.call + (price.cpu_second * cpuMs) / 1000 + price.gb_second * gbSeconds
  // Rounded up, so that no fraction is lost. Rounded to a thousandth first, because of errors such as
  // 0.30000000000000004.
  return { cpuMs, gbSeconds, cost: Math.ceil(Math.round(units * MICRO * 1000) / 1000) }
}
