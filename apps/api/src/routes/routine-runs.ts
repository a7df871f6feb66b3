/** POST /v1/routines/{id}/run, and GET …/runs and …/events: what came of a routine, and who changed it. */
import { randomUUID } from 'node:crypto'
import { routineRunSchema } from '@cofferdam/contract'
import { fireRoutine } from '@cofferdam/routines'
import { z } from 'zod'
import { tenantScope } from '../authenticate.ts'
import { foundRoutine, noRoutine, routineParams } from '../found-routine.ts'
import type { App, RouteContext } from '../route-context.ts'
import { changeEventSchema, DEFAULT_PAGE, FAILURES, limitQuery } from '../wire-schemas.ts'

const eventSchema = changeEventSchema(z.enum(['created', 'changed', 'deleted'])).extend({
  tenant_id: z.string(),
  routine_id: z.string(),
})

/** Adds the routes. */
export function routineRuns(app: App, context: RouteContext): void {
  addRuns(app, context)
  addEvents(app, context)
}

function addRuns(app: App, context: RouteContext): void {
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
              .meta({ description: 'Repeating a key repeats the answer and runs nothing.' }),
          })
          .optional(),
        response: { 200: routineRunSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { id } = request.params
      foundRoutine(await store.routines.get(tenantScope(request), id))
      const trigger = { key: `by-hand:${request.body?.key ?? randomUUID()}`, scheduledAtMs: null }
      const run = await fireRoutine({ routines: store.routines, producer }, id, trigger)
      return foundRoutine(run)
    },
  )

  app.get(
    '/routines/:id/runs',
    {
      schema: {
        operationId: 'listRoutineRuns',
        tags: ['routines'],
        summary: 'What came of the last times that it was due, the newest first; 200 are kept.',
        params: routineParams,
        querystring: z.strictObject({ limit: limitQuery.optional() }),
        response: { 200: z.strictObject({ runs: z.array(routineRunSchema) }), ...FAILURES },
      },
    },
    async (request) => {
      const scope = tenantScope(request)
      const { id } = request.params
      foundRoutine(await store.routines.get(scope, id))
      return { runs: await store.routines.runs(scope, id, request.query.limit ?? DEFAULT_PAGE) }
    },
  )
}

/** Changes; of one that is deleted, too. */
function addEvents(app: App, { store }: RouteContext): void {
  app.get(
    '/routines/:id/events',
    {
      schema: {
        operationId: 'listRoutineEvents',
        tags: ['routines'],
        summary: 'Who changed what of a routine, the newest first; also of one that is deleted.',
        params: routineParams,
        querystring: z.strictObject({ limit: limitQuery.optional() }),
        response: { 200: z.strictObject({ events: z.array(eventSchema) }), ...FAILURES },
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
