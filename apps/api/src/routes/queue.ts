/** GET /v1/queue: what waits and runs in the whole fleet. */
import { CELL_MAX } from '@cofferdam/contract'
import { z } from 'zod'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES } from '../wire-schemas.ts'

const count = z.int().min(0)

const laneSchema = z.strictObject({
  queued: count.meta({ description: 'Executions that wait in the fair queue.', example: 12 }),
  delayed: count.meta({ description: 'Executions that cannot start yet.', example: 0 }),
  running: count.meta({
    description: 'Executions that were released to the workers or run there.',
    example: 4,
  }),
  oldest_age_ms: z.number().nullable().meta({
    description: 'How long the oldest queued execution has been due, milliseconds. Null when none is queued.',
    example: 350,
  }),
  window: count.meta({
    description: 'How many of its executions may be released or running at once.',
    example: 8,
  }),
})

const queueSchema = z.strictObject({
  lanes: z
    .strictObject({
      interactive: laneSchema.meta({ description: 'Executions whose callers wait.' }),
      routine: laneSchema.meta({ description: 'Long executions and runs of routines.' }),
    })
    .meta({ description: 'The two lanes.' }),
  workers: z
    .array(
      z.strictObject({
        worker_id: z.string().meta({
          description: 'The worker.',
          example: 'wrk_0123456789ab_01a1fa08335671eda83cd82154726441',
        }),
        slots: count.meta({ description: 'Executions that it runs at once.', example: 4 }),
        running: count.meta({ description: 'Executions that it has now.', example: 2 }),
        last_seen_ms: z
          .number()
          .meta({ description: 'Time since its last heartbeat, milliseconds.', example: 900 }),
      }),
    )
    .meta({ description: 'Workers with a heartbeat.' }),
  outbox: count.meta({ description: 'Attempt records that Postgres does not have yet.', example: 0 }),
  callbacks: z
    .strictObject({
      due: count.meta({ description: 'Due now.', example: 0 }),
      retrying: count.meta({ description: 'Waiting for another try.', example: 0 }),
    })
    .meta({ description: 'Results to post to a callback_url.' }),
  cells_away: z
    .array(z.int().min(0).max(CELL_MAX))
    .optional()
    .meta({
      description: 'Cells that did not answer, whose figures are missing. Absent in a fleet of one cell.',
      example: [2],
    }),
})

export function queue(app: App, context: RouteContext): void {
  app.get(
    '/queue',
    {
      // Only for admin keys, because the answer shows the load of all tenants.
      config: { admin: true },
      schema: {
        operationId: 'getQueue',
        tags: ['queue'],
        summary: 'What waits and runs in each lane, and the workers. Admin.',
        response: { 200: queueSchema, ...FAILURES },
      },
    },
    () => context.producer.stats(),
  )
}
