/** The caps of a tenant, as results, headers and audit rows name them. */
import { z } from 'zod'

/** Caps that can refuse an attempt. `unknown` when admission did not answer. */
export const CAP_DIMENSIONS = [
  'tenant_daily',
  'agent_hourly',
  'tenant_daily_cpu',
  'tenant_daily_cost',
  'tenant_rate',
  'unknown',
] as const
export const capDimensionSchema = z.enum(CAP_DIMENSIONS)
export type CapDimension = z.infer<typeof capDimensionSchema>

export const windowUseSchema = z.strictObject({ used: z.int(), limit: z.int(), resets_at: z.iso.datetime() })

/** CPU seconds with three decimals, because milliseconds are counted. */
export const cpuUseSchema = z.strictObject({
  used: z.number().min(0),
  limit: z.number().min(0),
  resets_at: z.iso.datetime(),
})

/** What tenant and agent had used when the attempt was admitted or refused, including this attempt. */
export const capsUseSchema = z.strictObject({
  tenant_daily: windowUseSchema,
  agent_hourly: windowUseSchema,
  /** CPU seconds of the UTC day, only for tenants with this cap. Counted at the end of each attempt. */
  tenant_daily_cpu: cpuUseSchema.optional(),
  /** Cost of the UTC day in micro-units, only for tenants with this cap. Counted when an attempt ends. */
  tenant_daily_cost: windowUseSchema.optional(),
})
export type CapsUse = z.infer<typeof capsUseSchema>
