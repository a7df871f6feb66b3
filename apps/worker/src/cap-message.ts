/**
 * What a caller reads whose execution a cap refused: what is left, in the units in which operators set it.
 */
import { MICRO, type CapDimension, type CapsUse } from '@cofferdam/contract'

/** An execution may be too large for what is left: then the cap is not reached, and smaller limits may do. */
export function capMessage(dimension: CapDimension, caps: CapsUse | null, resetsAt: string): string {
  const left = (use: { used: number; limit: number } | undefined) =>
    use === undefined ? 0 : Math.max(0, Math.round((use.limit - use.used) * 1000) / 1000)
  if (dimension === 'tenant_daily_cpu')
    return `The execution may use more CPU time than the ${left(caps?.tenant_daily_cpu)} s that are left of the tenant_daily_cpu cap, which resets at ${resetsAt}; a shorter hard_timeout_ms, fewer cpus or cpu_time_ms make it smaller.`
  if (dimension === 'tenant_daily_cost')
    return `The execution may cost more than the ${left(caps?.tenant_daily_cost) / MICRO} units that are left of the tenant_daily_cost cap, which resets at ${resetsAt}; smaller limits make it cheaper.`
  return `The ${dimension} cap is reached; it resets at ${resetsAt}.`
}
