/** /v1/sessions: the sessions of a tenant that have a sandbox now, wherever it is, and their end. */
import {
  acceptedSchema,
  executionIdSchema,
  nameSchema,
  sessionKeySchema,
  SESSION_SCOPES,
  type SessionInfo,
} from '@cofferdam/contract'
import { z } from 'zod'
import type { App, RouteContext } from '../route-context.ts'
import {
  findSession,
  operateOnSession,
  sessionParams,
  sessionQuery,
  tenantOfSession,
} from '../session-operation.ts'
import { cursorQuery, FAILURES, nextCursorSchema } from '../wire-schemas.ts'

const time = z.iso.datetime()

/** A session as the wire shows it: nothing that would help to reach its sandbox. */
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
  idle_at: time.meta({ description: 'From then on it may be ended, unless it is used before.' }),
  expires_at: time.nullable().meta({ description: 'Ended by then in any case; null when nothing says so.' }),
  last_execution_id: executionIdSchema.nullable(),
})

/** Adds the routes. */
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
      const tenantId = tenantOfSession(request, request.query.tenant_id)
      const of = { list: 'sessions', tenantId }
      const after = await context.cursors.open(of, request.query.cursor)
      const page = await context.sessions.list(tenantId, after)
      return { sessions: page.sessions.map(shown), next_cursor: await context.cursors.seal(of, page.cursor) }
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
      shown(await findSession(context, tenantOfSession(request, request.query.tenant_id), request.params)),
  )

  app.delete(
    '/sessions/:backend/:key',
    {
      schema: {
        operationId: 'endSession',
        tags: ['sessions'],
        summary: 'End a session: its sandbox is destroyed with all that is in it.',
        description:
          'It has its turn like an execution of the session: at once when the session is idle, else after what runs and what ' +
          'was enqueued before. 202 when that takes longer than 25 s; `Location` names the execution that does it.',
        params: sessionParams,
        querystring: sessionQuery,
        response: { 202: acceptedSchema, 204: z.undefined().describe('It has ended.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { params, query } = request
      const { accepted } = await operateOnSession(context, request, reply, { params, query, op: 'end' })
      return accepted === null ? reply.code(204).send() : reply.code(202).send(accepted)
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
