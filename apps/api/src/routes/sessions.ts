/**
 * GET /v1/sessions, and GET and DELETE of /v1/backends/{backend}/sessions/{key}: the sessions of a tenant
 * that have a sandbox now, or are paused. A session's path begins with its backend, because keys are unique
 * on a backend only.
 */
import {
  acceptedSchema,
  executionIdSchema,
  isPausedEntry,
  nameSchema,
  sessionKeySchema,
  SESSION_SCOPES,
  timeSchema,
  type SessionInfo,
} from '@cofferdam/contract'
import { z } from 'zod'
import { oneTenant } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import { changeSession, findSession, sessionParams, sessionQuery } from '../session-operation.ts'
import { cursorQuery, FAILURES, nextCursorSchema, tenantQuery } from '../wire-schemas.ts'

/** A session as the API shows it, without anything that would help to reach its sandbox. */
const sessionSchema = z.strictObject({
  tenant_id: nameSchema.meta({ description: 'Its tenant.', example: 'demo' }),
  backend: nameSchema.meta({ description: 'The backend that has it.', example: 'docker' }),
  key: sessionKeySchema.meta({ description: 'Its key.', example: 'notebook' }),
  session_id: z.string().meta({
    description: 'Identifies its sandbox: a new ID means a new sandbox.',
    example: 'ses_01a1fa08335671eda83cd82154726441',
  }),
  scope: z.enum(SESSION_SCOPES).meta({ description: 'What the next execution of the session finds.' }),
  state: z.enum(['idle', 'running', 'paused']).meta({
    description: 'Whether an execution uses it now, or it is saved on disk (paused).',
  }),
  worker: z.string().nullable().meta({
    description: 'The worker that uses it now. Null while it is idle.',
    example: 'wrk_0123456789ab_01a1fa08335671eda83cd82154726441',
  }),
  owner: z.string().nullable().meta({
    description: 'The only worker that reaches its sandbox. Null when any worker can attach to it.',
    example: 'wrk_0123456789ab_01a1fa08335671eda83cd82154726441',
  }),
  created_at: timeSchema.meta({ description: 'When it was created.' }),
  used_at: timeSchema.meta({ description: 'When it was last used.' }),
  idle_at: timeSchema.meta({ description: 'From this time on it may be ended, unless it is used before.' }),
  expires_at: timeSchema
    .nullable()
    .meta({ description: 'Latest time at which its age or its vendor ends it. Null if there is none.' }),
  last_execution_id: executionIdSchema.nullable().meta({
    description: 'The last execution that used it. Null before the first.',
  }),
})

export function sessions(app: App, context: RouteContext): void {
  app.get(
    '/sessions',
    {
      schema: {
        operationId: 'listSessions',
        tags: ['sessions'],
        summary: 'Sessions that have a sandbox now or are paused, newest first, at most 500 a page.',
        querystring: z.strictObject({ tenant_id: tenantQuery, cursor: cursorQuery.optional() }),
        response: {
          200: z.strictObject({
            sessions: z.array(sessionSchema).meta({ description: 'One page of sessions.' }),
            next_cursor: nextCursorSchema,
          }),
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
    '/backends/:backend/sessions/:key',
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
    '/backends/:backend/sessions/:key',
    {
      schema: {
        operationId: 'endSession',
        tags: ['sessions'],
        summary: 'End a session: its sandbox is destroyed with everything in it.',
        description:
          'The call waits its turn like an execution of the session. It runs at once if the session is ' +
          'idle, and otherwise after the running execution and those enqueued before it. 202 if that takes ' +
          'longer than 25 s; `Location` names the execution.',
        params: sessionParams,
        querystring: sessionQuery,
        response: { 202: acceptedSchema, 204: z.undefined().describe('It has ended.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { params, query } = request
      return changeSession(context, request, reply, { params, query, op: 'end', action: 'session_ended' })
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
    state: session.holder !== null ? 'running' : isPausedEntry(session) ? 'paused' : 'idle',
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
