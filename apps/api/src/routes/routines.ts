/**
 * /v1/routines: executions that run on a schedule or on demand. A change is committed in Postgres and then
 * applied to the schedules in Redis. If Redis is away, the workers apply it within a minute.
 */
import {
  inTime,
  routineIdSchema,
  routineInputSchema,
  type RoutinePatch,
  routinePatchSchema,
  type RoutineRun,
  routineSchema,
  type RoutineView,
} from '@cofferdam/contract'
import { checkSchedule, nextRunMs } from '@cofferdam/routines'
import type { StoredRoutine } from '@cofferdam/store'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import {
  actorOf,
  requireBoundTemplate,
  requireTenant,
  tenantFilter,
  tenantScope,
  underBoundTemplate,
} from '../authenticate.ts'
import { cutPage } from '../cursors.ts'
import { REDIS_MS } from '../make-live.ts'
import type { App, RouteContext } from '../route-context.ts'
import {
  cursorQuery,
  DEFAULT_PAGE,
  FAILURES,
  limitQuery,
  nextCursorSchema,
  namedFields,
  tenantQuery,
} from '../wire-schemas.ts'
import { foundRoutine, noRoutine, routineParams } from './routine-runs.ts'
import { requireCallbackSecret } from './tenant-credentials.ts'

export function routines(app: App, context: RouteContext): void {
  addCollection(app, context)
  addOne(app, context)
}

function addCollection(app: App, context: RouteContext): void {
  const { store } = context

  app.post(
    '/routines',
    {
      schema: {
        operationId: 'createRoutine',
        tags: ['routines'],
        summary: 'Create a routine: a request, and when it runs.',
        description:
          'Its runs are in lane `routine` and may take up to 24 hours. `request` is checked at creation ' +
          'and again at each run.',
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
      const made = await store.routines.create(
        { ...input, request: underBoundTemplate(request, input.request) },
        actorOf(request),
      )
      await schedule(context, () => context.schedules.apply(made))
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
        summary: 'Routines, newest first.',
        querystring: z.strictObject({
          tenant_id: tenantQuery,
          limit: limitQuery.optional(),
          cursor: cursorQuery.optional(),
        }),
        response: {
          200: z.strictObject({
            routines: z.array(routineSchema).meta({ description: 'One page of routines.' }),
            next_cursor: nextCursorSchema,
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const { tenant_id, limit = DEFAULT_PAGE, cursor } = request.query
      const tenantId = tenantFilter(request, tenant_id)
      return context.cursors.page({ list: 'routines', tenantId }, cursor, async (position) => {
        const after = position === undefined ? undefined : routineIdSchema.parse(position)
        const found = await store.routines.list(tenantId, { limit: limit + 1, ...namedFields({ after }) })
        const { rows, next_cursor } = cutPage(found, limit, (routine) => routine.routine_id)
        const ids = rows.map((routine) => routine.routine_id)
        const last = await store.routines.lastRuns(tenantId, ids)
        const routines = rows.map((routine) => viewOf(context, routine, last.get(routine.routine_id) ?? null))
        return { routines, next_cursor }
      })
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
        params: routineParams,
        response: { 200: routineSchema, ...FAILURES },
      },
    },
    async (request) => {
      const scope = tenantScope(request)
      const routine = foundRoutine(await store.routines.get(scope, request.params.id))
      return viewOf(context, routine, await lastRun(context, scope, routine))
    },
  )

  app.patch(
    '/routines/:id',
    {
      schema: {
        operationId: 'changeRoutine',
        tags: ['routines'],
        summary: 'Change the named parts of a routine. A run in progress continues unchanged.',
        params: routineParams,
        body: routinePatchSchema,
        response: { 200: routineSchema, ...FAILURES },
      },
    },
    async (request) => {
      const scope = tenantScope(request)
      const patch = boundPatch(request, request.body)
      checkSchedule(patch.schedule)
      const before = foundRoutine(await store.routines.get(scope, request.params.id))
      requireBoundTemplate(request, before.request)
      if (typeof patch.callback_url === 'string' || patch.request?.callback_url !== undefined)
        await requireCallbackSecret(context, before.tenant_id)
      const routine = foundRoutine(
        await store.routines.change(scope, request.params.id, patch, actorOf(request)),
      )
      await schedule(context, () => context.schedules.apply(routine))
      return viewOf(context, routine, await lastRun(context, scope, routine))
    },
  )

  app.delete(
    '/routines/:id',
    {
      schema: {
        operationId: 'deleteRoutine',
        tags: ['routines'],
        summary:
          'Delete a routine and the history of its runs. A run in progress continues; audit rows stay.',
        params: routineParams,
        response: { 204: z.undefined().describe('It is gone.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { id } = request.params
      const scope = tenantScope(request)
      const routine = foundRoutine(await store.routines.get(scope, id))
      requireBoundTemplate(request, routine.request)
      if (!(await store.routines.remove(scope, id, actorOf(request)))) throw noRoutine()
      await schedule(context, () => context.schedules.forget(routine))
      return reply.code(204).send()
    },
  )
}

/** A changed request runs under the template that the caller's key is bound to. */
const boundPatch = (request: FastifyRequest, patch: RoutinePatch): RoutinePatch =>
  patch.request === undefined ? patch : { ...patch, request: underBoundTemplate(request, patch.request) }

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

/** Applies a committed change to the schedules. If Redis is away, the workers apply it later. */
async function schedule(context: RouteContext, work: () => Promise<void>): Promise<void> {
  try {
    await inTime(work(), REDIS_MS, () => new Error(`no answer in ${REDIS_MS} ms`))
  } catch (error) {
    const message = 'Redis did not take a change of a routine; workers do it within a minute'
    context.logger?.warn({ err: error }, message)
  }
}
