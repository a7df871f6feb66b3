/** POST /v1/routines/{id}/run, and GET …/runs and …/events: the runs of a routine, and its changes. */
import { randomUUID } from 'node:crypto'
import { CofferdamError, routineIdSchema, routineRunSchema } from '@cofferdam/contract'
import { fireRoutine } from '@cofferdam/routines'
import { z } from 'zod'
import { requireBoundTemplate, tenantScope } from '../authenticate.ts'
import { recordAction } from '../record-action.ts'
import type { App, RouteContext } from '../route-context.ts'
import { changeEventSchema, DEFAULT_PAGE, FAILURES, limitQuery, viaSchema } from '../wire-schemas.ts'

export const routineParams = z.strictObject({
  id: routineIdSchema.meta({ description: 'The routine.' }),
})

const eventSchema = changeEventSchema(
  z.enum(['created', 'changed', 'deleted']).meta({ description: 'What was done.' }),
).extend({
  via: viaSchema,
  tenant_id: z.string().meta({ description: 'The tenant.', example: 'demo' }),
  routine_id: z.string().meta({
    description: 'The routine.',
    example: 'rtn_01a1fa08335671eda83cd82154726441',
  }),
})

export function routineRuns(app: App, context: RouteContext): void {
  const { store, producer } = context

  app.post(
    '/routines/:id/run',
    {
      schema: {
        operationId: 'runRoutine',
        tags: ['routines'],
        summary: 'Run a routine now, disabled or not, under its own concurrency rule.',
        params: routineParams,
        body: z
          .strictObject({
            key: z
              .string()
              .min(1)
              .max(128)
              .optional()
              .meta({
                description:
                  'A call with a key that was used before gets the same answer and runs nothing. ' +
                  'Default: a new key.',
                example: 'rerun-of-may',
              }),
          })
          .optional(),
        response: { 200: routineRunSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { id } = request.params
      const routine = foundRoutine(await store.routines.get(tenantScope(request), id))
      requireBoundTemplate(request, routine.request)
      const trigger = { key: `by-hand:${request.body?.key ?? randomUUID()}`, scheduledAtMs: null }
      const run = foundRoutine(await fireRoutine({ routines: store.routines, producer }, id, trigger))
      const details = { routine_id: id, outcome: run.outcome, execution_id: run.execution_id }
      await recordAction({ store }, request, routine.tenant_id, 'routine_run', details)
      return run
    },
  )

  app.get(
    '/routines/:id/runs',
    {
      schema: {
        operationId: 'listRoutineRuns',
        tags: ['routines'],
        summary:
          'The outcomes of the last runs, scheduled or on demand, newest first. The last 200 are kept.',
        params: routineParams,
        querystring: z.strictObject({ limit: limitQuery.optional() }),
        response: {
          200: z.strictObject({
            runs: z.array(routineRunSchema).meta({ description: 'Runs, newest first.' }),
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const scope = tenantScope(request)
      const { id } = request.params
      foundRoutine(await store.routines.get(scope, id))
      return { runs: await store.routines.runs(scope, id, request.query.limit ?? DEFAULT_PAGE) }
    },
  )

  app.get(
    '/routines/:id/events',
    {
      schema: {
        operationId: 'listRoutineEvents',
        tags: ['routines'],
        summary: 'Who changed what in a routine, newest first. Deleted routines are found, too.',
        params: routineParams,
        querystring: z.strictObject({ limit: limitQuery.optional() }),
        response: {
          200: z.strictObject({
            events: z.array(eventSchema).meta({ description: 'Changes.' }),
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const { limit = DEFAULT_PAGE } = request.query
      const events = await store.routines.events(tenantScope(request), request.params.id, limit)
      if (events.length === 0) throw noRoutine()
      return { events }
    },
  )
}

/** The same message whether the routine never existed, was deleted, or belongs to another tenant. */
export const noRoutine = (): CofferdamError =>
  new CofferdamError('not_found', 'There is no routine of that id.')

/** Returns `found`. Throws `not_found` for null. */
export function foundRoutine<T>(found: T | null): T {
  if (found === null) throw noRoutine()
  return found
}
