/** The caps of a tenant, as results, headers and audit rows name them. */
import { z } from 'zod'
import { timeSchema } from './name.ts'

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

const resetsAt = timeSchema.meta({ description: 'When the window ends and the count starts again at 0.' })

export const windowUseSchema = z.strictObject({
  used: z.int().meta({ description: 'Used in the current window.', example: 13 }),
  limit: z.int().meta({ description: 'The cap. 0 stops everything.', example: 1000 }),
  resets_at: resetsAt,
})

export const cpuUseSchema = z.strictObject({
  used: z.number().min(0).meta({
    description: 'CPU seconds used in the current window, with three decimals.',
    example: 12.345,
  }),
  limit: z.number().min(0).meta({ description: 'The cap, CPU seconds.', example: 3600 }),
  resets_at: resetsAt,
})

/** What tenant and agent had used when the attempt was admitted or refused, including this attempt. */
export const capsUseSchema = z.strictObject({
  tenant_daily: windowUseSchema.meta({ description: 'Charged attempts of the tenant in the UTC day.' }),
  agent_hourly: windowUseSchema.meta({ description: 'Charged attempts of the agent in the UTC hour.' }),
  tenant_daily_cpu: cpuUseSchema.optional().meta({
    description:
      'CPU time of the tenant in the UTC day, counted at the end of each attempt. Absent without this cap.',
  }),
  tenant_daily_cost: windowUseSchema.optional().meta({
    description:
      'Cost of the tenant in the UTC day, micro-units, counted at the end of each attempt. Absent without ' +
      'this cap.',
  }),
})
export type CapsUse = z.infer<typeof capsUseSchema>
