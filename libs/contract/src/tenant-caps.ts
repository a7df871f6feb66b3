/** Caps of a tenant. Changes take effect without a restart. */
import { z } from 'zod'
import { boundedRecord } from './bounded-record.ts'
import { nameSchema } from './name.ts'
import { MICRO } from './price.ts'

const cap = z.int().min(0).max(1_000_000_000)
/**
 * A billion units. Even with the cost of everything in flight, sums stay far below 2^53, so Lua and
 * JavaScript count exactly.
 */
const MOST_COST = 1_000_000_000 * MICRO
/**
 * Agents of one tenant with an hourly cap of their own. Their names and caps take at most 1.5 MB, in the
 * tenant's row and in Redis.
 */
const MAX_CAPPED_AGENTS = 10_000

/**
 * Fields that have a default in `tenantCapsSchema`. They have none here, because a patch must not reset a
 * field.
 */
const BUDGETS = {
  tenant_daily_cpu_seconds: cap.nullable().meta({
    description:
      'CPU seconds per UTC day. Null (default): no cap. Admission reserves the most that an attempt may ' +
      'use. When the attempt ends, its real use counts instead.',
    example: 3600,
  }),
  tenant_daily_cost: z.int().min(0).max(MOST_COST).nullable().meta({
    description:
      'Cost per UTC day, micro-units. Null (default): no cap. Prices are in the workers’ configuration.',
    example: 5_000_000,
  }),
}

/** Fleet-wide defaults, which apply where a tenant's cap is null. */
export const FLEET_DEFAULTS = {
  tenant_daily: 1000,
  agent_hourly: 100,
  /**
   * More slots than any fleet has. While its runs are short, a tenant may use every slot. While they are
   * long, it leaves a share to others (libs/queue/src/lua/include/slots.lua).
   */
  concurrency: 100_000,
  max_queued: 10_000,
} as const

/** Caps and queue limits of a tenant. */
export const tenantCapsSchema = z.strictObject({
  tenant_daily: cap.nullable().meta({
    description:
      'Charged attempts per UTC day. 0 stops the tenant. Null (default): that of the fleet, 1,000.',
    example: 500,
  }),
  agent_hourly: cap.nullable().meta({
    description:
      'Charged attempts per agent and UTC hour. 0 stops its agents. Null (default): that of the fleet, 100.',
    example: 50,
  }),
  agents: boundedRecord(nameSchema, cap, MAX_CAPPED_AGENTS, 'agents').meta({
    description: 'Hourly caps of single agents, instead of agent_hourly. Default: none.',
    example: { analyst: 200 },
  }),
  concurrency: z
    .int()
    .min(1)
    .max(100_000)
    .nullable()
    .meta({
      description:
        'Executions that may run at once. Null (default): all slots of the fleet. While its runs take 1 s ' +
        'or more on average, or none has ended yet, the tenant leaves a quarter of the slots to others.',
      example: 4,
    }),
  max_queued: z.int().min(0).max(10_000_000).nullable().meta({
    description: 'Executions that may be queued at once. Null (default): that of the fleet, 10,000.',
    example: 1000,
  }),
  weight: z.number().min(0.01).max(100).meta({
    description: 'Share of the fleet under contention, relative to other tenants. Default: 1.',
    example: 1,
  }),
  rate_per_second: z.number().min(0.001).max(100_000).nullable().meta({
    description: 'Sustained starts per second. Null (default): no rate limit.',
    example: 5,
  }),
  burst: z.int().min(1).max(100_000).meta({
    description: 'Starts that may come at once before rate_per_second holds them back. Default: 1.',
    example: 10,
  }),
  tenant_daily_cpu_seconds: BUDGETS.tenant_daily_cpu_seconds.default(null),
  tenant_daily_cost: BUDGETS.tenant_daily_cost.default(null),
})
/** Has no defaults, like `tenantPolicyPatchSchema`. */
export const tenantCapsPatchSchema = tenantCapsSchema.extend(BUDGETS).partial()
export type TenantCaps = z.infer<typeof tenantCapsSchema>

export const DEFAULT_TENANT_CAPS: TenantCaps = {
  tenant_daily: null,
  agent_hourly: null,
  agents: {},
  concurrency: null,
  max_queued: null,
  weight: 1,
  rate_per_second: null,
  burst: 1,
  tenant_daily_cpu_seconds: null,
  tenant_daily_cost: null,
}
