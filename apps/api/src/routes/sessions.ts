/** GET /v1/sessions[/{backend}/{key}] and DELETE of one: the sessions of a tenant that have a sandbox now. */
import {
  acceptedSchema,
  executionIdSchema,
  nameSchema,
  sessionKeySchema,
  SESSION_SCOPES,
  type SessionInfo,
} from '@cofferdam/contract'
import { z } from 'zod'
import { oneTenant } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import { changeSession, findSession, sessionParams, sessionQuery } from '../session-operation.ts'
import { cursorQuery, FAILURES, nextCursorSchema } from '../wire-schemas.ts'

const time = z.iso.datetime()

/** A session as the API shows it, without anything that would help to reach its sandbox. */
const sessionSchema = z.strictObject({
  tenant_id: nameSchema,
  backend: nameSchema,
  key: sessionKeySchema,
  session_id: z.string(),
  scope: z.enum(SESSION_SCOPES),
  state: z.enum(['idle', 'running']),
  worker: z.string().nullable().meta({ description: 'The worker that uses it now; null while it is idle.' }),
  owner: z.string().nullable().meta({
    description: 'The only worker that reaches its sandbox; null when any worker can attach to it.',
  }),
  created_at: time,
  used_at: time,
  idle_at: time.meta({ description: 'From this time on it may be ended, unless it is used before.' }),
  expires_at: time.nullable().meta({ description: 'Ended by this time in any case; null for no such time.' }),
  last_execution_id: executionIdSchema.nullable(),
})

export function sessions(app: App, context: RouteContext): void {
  app.get(
    '/sessions',
    {
      schema: {
        operationId: 'listSessions',
        tags: ['sessions'],
        summary: 'Sessions that have a sandbox now, newest first, at most 500 a page.',
        querystring: z.strictObject({ tenant_id: nameSchema.optional(), cursor: cursorQuery.optional() }),
        response: {
          200: z.strictObject({ sessions: z.array(sessionSchema), next_cursor: nextCursorSchema }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const tenantId = oneTenant(request, request.query.tenant_id)
      return context.cursors.page({ list: 'sessions', tenantId }, request.query.cursor, async (after) => {
        const { sessions, cursor } = await context.sessions.list(tenantId, after)
        return { sessions: sessions.map(shown), next_cursor: cursor }
      })
    },
  )

  app.get(
    '/sessions/:backend/:key',
    {
      schema: {
        operationId: 'getSession',
        tags: ['sessions'],
        summary: 'One session.',
        params: sessionParams,
        querystring: sessionQuery.pick({ tenant_id: true }),
        response: { 200: sessionSchema, ...FAILURES },
      },
    },
    async (request) =>
      shown(await findSession(context, oneTenant(request, request.query.tenant_id), request.params)),
  )

  app.delete(
    '/sessions/:backend/:key',
    {
      schema: {
        operationId: 'endSession',
        tags: ['sessions'],
        summary: 'End a session: its sandbox is destroyed with everything in it.',
        description:
          'It waits its turn like an execution of the session: it runs at once when the session is idle, ' +
          'else after what ' +
          'runs and what was enqueued before. 202 when that takes longer than 25 s; `Location` names the ' +
          'execution.',
        params: sessionParams,
        querystring: sessionQuery,
        response: { 202: acceptedSchema, 204: z.undefined().describe('It has ended.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { params, query } = request
      return changeSession(context, request, reply, { params, query, op: 'end' })
    },
  )
}

function shown(session: SessionInfo): z.output<typeof sessionSchema> {
  return {
    tenant_id: session.tenantId,
    backend: session.backend,
    key: session.key,
    session_id: session.sessionId,
    scope: session.scope,
    state: session.holder === null ? 'idle' : 'running',
    worker: session.holder,
    owner: session.owner,
    created_at: timeOf(session.createdAtMs),
    used_at: timeOf(session.usedAtMs),
    idle_at: timeOf(session.idleAtMs),
    expires_at: session.expiresAtMs === null ? null : timeOf(session.expiresAtMs),
    last_execution_id: session.executionId ?? null,
  }
}

const timeOf = (ms: number): string => new Date(ms).toISOString()
