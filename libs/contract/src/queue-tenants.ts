/** The tenants that have executions waiting or running: what they get, what they are due, and who is next. */
import { z } from 'zod'
import { nameSchema, timeSchema } from './name.ts'

const count = z.int().min(0)
const share = z.number().min(0).max(1)

/** Sort orders of the list, highest value first. `next` starts with the tenant that is served next. */
export const QUEUE_TENANT_SORTS = ['next', 'waiting', 'share', 'lag'] as const

export const queueTenantSchema = z.strictObject({
  tenant_id: nameSchema.meta({ description: 'The tenant.', example: 'demo' }),
  waiting: count.meta({ description: 'Executions that are due and wait for a slot.', example: 12 }),
  delayed: count.meta({
    description: 'Executions that cannot start yet. They are not in waiting.',
    example: 0,
  }),
  running: count.meta({
    description: 'Executions that hold a slot: released to the workers, or running there.',
    example: 4,
  }),
  concurrency: count.nullable().meta({
    description: 'Executions that may hold a slot at once. Null without a limit of its own.',
    example: 4,
  }),
  max_queued: count.meta({
    description: 'Executions that may wait at once, delayed ones included.',
    example: 10_000,
  }),
  weight: z
    .number()
    .meta({ description: 'Share of the fleet under contention, relative to other tenants.', example: 1 }),
  share_1m: share.nullable().meta({
    description:
      'Its part of the time that the workers spent on executions in the last minute, 0 to 1. Null while ' +
      'Postgres does not answer.',
    example: 0.42,
  }),
  due_share: share.meta({
    description:
      'Its weight, divided by the weights of all tenants that want work, 0 to 1. 0 while it is parked and ' +
      'runs nothing.',
    example: 0.5,
  }),
  virtual_lag: z
    .number()
    .nullable()
    .meta({
      description:
        'Slot seconds, divided by its weight, that it has used beyond its due share. Tenants with less go ' +
        'first. Null if unknown.',
      example: 0.2,
    }),
  place: z
    .int()
    .min(1)
    .nullable()
    .meta({
      description:
        'Place in the order of who is next; 1 is next. Each lane and each kind of worker has its own ' +
        'order, and this is its best place. Null while it cannot be served. Then nothing of it waits in ' +
        'the fair queue, it has reached its concurrency, it is parked, it leaves slots to others, or no ' +
        'worker can run its executions.',
      example: 1,
    }),
  oldest_age_ms: z.number().min(0).nullable().meta({
    description: 'How long its oldest waiting execution has been due, milliseconds. Null if none is known.',
    example: 350,
  }),
  parked_until: timeSchema.nullable().meta({
    description:
      'All its executions wait until then: a cap is used up, or policy or caps cannot be read. Null if not ' +
      'parked.',
  }),
  kill_switch: z.boolean().nullable().meta({
    description: 'Whether one of its caps is 0, which stops it. Null while Postgres does not answer.',
    example: false,
  }),
})
export type QueueTenant = z.infer<typeof queueTenantSchema>

export const queueTenantsSchema = z.strictObject({
  at: timeSchema.meta({ description: 'When the scheduler was read. An answer may be some seconds old.' }),
  tenants: z.array(queueTenantSchema).meta({ description: 'Tenants with executions waiting or running.' }),
  total: count.meta({
    description: 'Number of tenants with executions waiting or running. At most limit of them are listed.',
    example: 3,
  }),
  complete: z.boolean().meta({
    description:
      'False when there are more than 10,000 such tenants, or more than 20,000 running executions. No ' +
      'figure includes the others, so the shown places and due shares are better than the true ones.',
    example: true,
  }),
})
export type QueueTenants = z.infer<typeof queueTenantsSchema>
