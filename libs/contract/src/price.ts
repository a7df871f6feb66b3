/**
 * What an attempt may use at most, what it is charged at its end, and what that costs. Pure, so that the worker that
 * reserves, the one that settles and the one that cleans up after a third come to the same numbers.
 *
 *   reserved = largestCharge(limits)  ──►  charged = chargeOf(usage, limits) ≤ reserved, always
 *
 * Cost is counted in micro-units: integers, of a unit that has no currency (whoever sets the prices knows which it is).
 */
import { z } from 'zod'
import { nameSchema, type Limits } from './request.ts'
import type { Usage } from './result.ts'

/** Micro-units of one unit. */
export const MICRO = 1_000_000

/** A million units for one call is a mistake in any currency. */
const amount = z.number().min(0).max(1_000_000).default(0)

export const priceSchema = z.strictObject({
  /** Of each charged attempt, units. */
  call: amount,
  /** Of a second of CPU time, units. */
  cpu_second: amount,
  /** Of 1,024 MiB of memory limit for a second of run time, units. */
  gb_second: amount,
})
export type Price = z.infer<typeof priceSchema>

/** Prices by backend; `default` holds for backends that are not named, and is 0 when it is not. */
export const pricesSchema = z.record(nameSchema, priceSchema)
export type Prices = z.infer<typeof pricesSchema>

const FREE: Price = { call: 0, cpu_second: 0, gb_second: 0 }

/** What an attempt uses of the caps and what it costs; integers but for `gbSeconds`. */
export interface Charge {
  cpuMs: number
  gbSeconds: number
  /** Micro-units. */
  cost: number
}

type BoundingLimits = Pick<Limits, 'hard_timeout_ms' | 'cpu_time_ms' | 'cpus' | 'memory_mib'>

/** The most that an attempt can be charged: all of its CPUs until the hard deadline, where it costs most. */
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
 * What a charged attempt is charged at its end. CPU time is the measured one; where a backend measures none (or died
 * with its measurement), run time × `cpus`. Nothing but the call when no user code began. Never more than `largestCharge`:
 * what a program uses in the moment of being killed at its deadline is the platform's.
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
  // Rounded up, so that no price is lost; first to a thousandth, so that 0.3 stored as 0.30000000000000004 is 0.3.
  return { cpuMs, gbSeconds, cost: Math.ceil(Math.round(units * MICRO * 1000) / 1000) }
}
