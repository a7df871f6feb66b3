/**
 * /v1/routines: executions that run by a schedule or by hand. A change is committed in Postgres, then put into the clock in
 * Redis; with Redis away the workers make up for the second step within a minute.
 */
import {
  inTime,
  nameSchema,
  routineIdSchema,
  routineInputSchema,
  routinePatchSchema,
  routineSchema,
  type RoutinePatch,
  type RoutineRun,
  type RoutineView,
} from '@cofferdam/contract'
import { checkSchedule, nextRunMs } from '@cofferdam/routines'
import type { StoredRoutine } from '@cofferdam/store'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { actorOf, requireTenant, tenantFilter, tenantScope } from '../authenticate.ts'
import { underBoundTemplate } from '../bound-template.ts'
import { requireCallbackSecret } from '../callback-secret.ts'
import { foundRoutine, noRoutine, routineParams } from '../found-routine.ts'
import type { App, RouteContext } from '../route-context.ts'
import { cursorQuery, DEFAULT_PAGE, FAILURES, limitQuery, nextCursorSchema } from '../wire-schemas.ts'
import { routineRuns } from './routine-runs.ts'

/** As long as other changes wait for Redis (make-live.ts). */
const CLOCK_MS = 3000

/** Adds the routes. */
export function routines(app: App, context: RouteContext): void {
  addCollection(app, context)
  addOne(app, context)
  routineRuns(app, context)
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
      const made = await store.routines.create(
        { ...input, request: underBoundTemplate(request, input.request) },
        actorOf(request),
      )
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
          cursor: cursorQuery.optional(),
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
      const of = { list: 'routines', tenantId }
      const after = await context.cursors.open(of, cursor)
      const found = await store.routines.list(tenantId, {
        limit: limit + 1,
        ...(after === undefined ? {} : { after: routineIdSchema.parse(after) }),
      })
      const page = found.slice(0, limit)
      const last = await store.routines.lastRuns(
        tenantId,
        page.map((routine) => routine.routine_id),
      )
      return {
        routines: page.map((routine) => viewOf(context, routine, last.get(routine.routine_id) ?? null)),
        next_cursor: await context.cursors.seal(
          of,
          found.length > limit ? (page.at(-1)?.routine_id ?? null) : null,
        ),
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
        summary: 'Change the named parts of a routine. What runs goes on as it began.',
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
      if (typeof patch.callback_url === 'string' || patch.request?.callback_url !== undefined)
        await requireCallbackSecret(context, before.tenant_id)
      const routine = foundRoutine(
        await store.routines.change(scope, request.params.id, patch, actorOf(request)),
      )
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
        params: routineParams,
        response: { 204: z.undefined().describe('It is gone.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { id } = request.params
      if (!(await store.routines.remove(tenantScope(request), id, actorOf(request)))) throw noRoutine()
      await tellClock(context, () => context.schedules.forget(id))
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
