/**
 * /v1/routines: executions that run by a schedule or by hand. A change is committed in Postgres, then put into the clock in
 * Redis; with Redis away the workers make up for the second step within a minute.
 */
import { randomUUID } from 'node:crypto'
import {
  CofferdamError,
  inTime,
  nameSchema,
  routineIdSchema,
  routineInputSchema,
  routinePatchSchema,
  routineRunSchema,
  routineSchema,
  type RoutineRun,
  type RoutineView,
} from '@cofferdam/contract'
import { checkSchedule, fireRoutine, nextRunMs } from '@cofferdam/routines'
import type { StoredRoutine } from '@cofferdam/store'
import { z } from 'zod'
import { actorOf, requireTenant, tenantFilter, tenantScope } from '../authenticate.ts'
import { requireCallbackSecret } from '../callback-secret.ts'
import type { App, RouteContext } from '../route-context.ts'
import { changeEventSchema, DEFAULT_PAGE, FAILURES, limitQuery, nextCursorSchema } from '../wire-schemas.ts'

const params = z.strictObject({ id: routineIdSchema })
const eventSchema = changeEventSchema(z.enum(['created', 'changed', 'deleted'])).extend({
  tenant_id: z.string(),
  routine_id: z.string(),
})
/** As long as other changes wait for Redis (make-live.ts). */
const CLOCK_MS = 3000

/** Adds the routes. */
export function routines(app: App, context: RouteContext): void {
  addCollection(app, context)
  addOne(app, context)
  addRuns(app, context)
  addEvents(app, context)
}

function addCollection(app: App, context: RouteContext): void {
  const { store } = context

  app.post(
    '/routines',
    {
      schema: {
        operationId: 'createRoutine',
        tags: ['routines'],
        summary: 'Make a routine: a request, and when it runs.',
        description:
          'Its runs are in lane `routine` and may take up to 24 hours. `request` is checked now and again at each run.',
        body: routineInputSchema,
        response: { 201: routineSchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      const input = request.body
      const tenantId = input.request.tenant_id
      requireTenant(request, tenantId)
      checkSchedule(input.schedule)
      if (input.callback_url !== null || input.request.callback_url !== undefined)
        await requireCallbackSecret(context, tenantId)
      const made = await store.routines.create(input, actorOf(request))
      await putIntoClock(context, made)
      void reply.header('location', `/v1/routines/${made.routine_id}`)
      return reply.code(201).send(viewOf(context, made, null))
    },
  )

  app.get(
    '/routines',
    {
      schema: {
        operationId: 'listRoutines',
        tags: ['routines'],
        summary: 'Routines, the newest first.',
        querystring: z.strictObject({
          tenant_id: nameSchema.optional(),
          limit: limitQuery.optional(),
          cursor: routineIdSchema.optional().meta({ description: 'next_cursor of the page before.' }),
        }),
        response: {
          200: z.strictObject({ routines: z.array(routineSchema), next_cursor: nextCursorSchema }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const { tenant_id, limit = DEFAULT_PAGE, cursor } = request.query
      const tenantId = tenantFilter(request, tenant_id)
      const found = await store.routines.list(tenantId, {
        limit: limit + 1,
        ...(cursor === undefined ? {} : { after: cursor }),
      })
      const page = found.slice(0, limit)
      const last = await store.routines.lastRuns(
        tenantId,
        page.map((routine) => routine.routine_id),
      )
      return {
        routines: page.map((routine) => viewOf(context, routine, last.get(routine.routine_id) ?? null)),
        next_cursor: found.length > limit ? (page.at(-1)?.routine_id ?? null) : null,
      }
    },
  )
}

function addOne(app: App, context: RouteContext): void {
  const { store } = context

  app.get(
    '/routines/:id',
    {
      schema: {
        operationId: 'getRoutine',
        tags: ['routines'],
        summary: 'One routine.',
        params,
        response: { 200: routineSchema, ...FAILURES },
      },
    },
    async (request) => {
      const scope = tenantScope(request)
      const routine = required(await store.routines.get(scope, request.params.id))
      return viewOf(context, routine, await lastRun(context, scope, routine))
    },
  )

  app.patch(
    '/routines/:id',
    {
      schema: {
        operationId: 'changeRoutine',
        tags: ['routines'],
        summary: 'Change the named parts of a routine. What runs goes on as it began.',
        params,
        body: routinePatchSchema,
        response: { 200: routineSchema, ...FAILURES },
      },
    },
    async (request) => {
      const scope = tenantScope(request)
      const patch = request.body
      checkSchedule(patch.schedule)
      const before = required(await store.routines.get(scope, request.params.id))
      if (typeof patch.callback_url === 'string' || patch.request?.callback_url !== undefined)
        await requireCallbackSecret(context, before.tenant_id)
      const routine = required(await store.routines.change(scope, request.params.id, patch, actorOf(request)))
      await putIntoClock(context, routine)
      return viewOf(context, routine, await lastRun(context, scope, routine))
    },
  )

  app.delete(
    '/routines/:id',
    {
      schema: {
        operationId: 'deleteRoutine',
        tags: ['routines'],
        summary: 'Delete a routine and the notes of its runs. What runs goes on; audit rows stay.',
        params,
        response: { 204: z.undefined().describe('It is gone.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { id } = request.params
      if (!(await store.routines.remove(tenantScope(request), id, actorOf(request)))) throw notFound()
      await tellClock(context, () => context.schedules.forget(id))
      return reply.code(204).send()
    },
  )
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
        params,
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
      required(await store.routines.get(tenantScope(request), id))
      const trigger = { key: `by-hand:${request.body?.key ?? randomUUID()}`, scheduledAtMs: null }
      const run = await fireRoutine({ routines: store.routines, producer }, id, trigger)
      return required(run)
    },
  )

  app.get(
    '/routines/:id/runs',
    {
      schema: {
        operationId: 'listRoutineRuns',
        tags: ['routines'],
        summary: 'What came of the last times that it was due, the newest first; 200 are kept.',
        params,
        querystring: z.strictObject({ limit: limitQuery.optional() }),
        response: { 200: z.strictObject({ runs: z.array(routineRunSchema) }), ...FAILURES },
      },
    },
    async (request) => {
      const scope = tenantScope(request)
      const { id } = request.params
      required(await store.routines.get(scope, id))
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
        params,
        querystring: z.strictObject({ limit: limitQuery.optional() }),
        response: { 200: z.strictObject({ events: z.array(eventSchema) }), ...FAILURES },
      },
    },
    async (request) => {
      const { limit = DEFAULT_PAGE } = request.query
      const events = await store.routines.events(tenantScope(request), request.params.id, limit)
      if (events.length === 0) throw notFound()
      return { events }
    },
  )
}

function viewOf(context: RouteContext, routine: StoredRoutine, last: RoutineRun | null): RoutineView {
  const { schedule, enabled, created_at } = routine
  const next =
    schedule === null || !enabled ? null : nextRunMs(schedule, Date.parse(created_at), context.now())
  return {
    ...routine,
    last_run: last,
    next_run_at: next === null ? null : new Date(next).toISOString(),
  }
}

async function lastRun(
  context: RouteContext,
  scope: string | null,
  { routine_id: id }: StoredRoutine,
): Promise<RoutineRun | null> {
  return (await context.store.routines.lastRuns(scope, [id])).get(id) ?? null
}

async function putIntoClock(context: RouteContext, routine: StoredRoutine): Promise<void> {
  await tellClock(context, () => context.schedules.apply(routine))
}

/** The change is committed: with Redis away the caller is not kept waiting, and the workers make up for it. */
async function tellClock(context: RouteContext, work: () => Promise<void>): Promise<void> {
  try {
    await inTime(work(), CLOCK_MS, () => new Error(`no answer in ${CLOCK_MS} ms`))
  } catch (error) {
    const message = 'Redis did not take a change of a routine; workers do it within a minute'
    context.logger?.warn({ err: error }, message)
  }
}

function required<T>(found: T | null): T {
  if (found === null) throw notFound()
  return found
}

/** The same words whether it never was, is gone, or is somebody else's. */
const notFound = (): CofferdamError => new CofferdamError('not_found', 'There is no routine of that id.')
